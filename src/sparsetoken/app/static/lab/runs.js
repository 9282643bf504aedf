// Simulated runs, with the state they belong to.

import { keyOf, settings } from "./state.js";

export class Runs extends EventTarget {
  constructor(connection) {
    super();
    this.connection = connection;
    this.clear();
    connection.addEventListener("answer", ({ detail }) => this.take(detail));
    connection.addEventListener("lost", () => {
      if (this.running) this.end("the simulation ended with the connection");
    });
  }

  clear() {
    Object.assign(this, { id: 0, key: "", words: null, dots: [], total: 0, running: false, ended: "", trouble: "" });
  }

  start(words) {
    this.clear();
    this.id = this.connection.ask("simulate", words);
    this.key = keyOf("simulate", words);
    this.words = Object.fromEntries([...settings.simulated, "repeats"].map((name) => [name, words[name]]));
    this.running = this.id > 0;
    this.changed();
  }

  cancel() {
    this.connection.ask("cancel", {});
    this.end(`cancelled after ${this.dots.length} of ${this.total} runs`);
  }

  end(words) {
    this.running = false;
    this.ended = words;
    this.changed();
  }

  take({ ask, id, parts, done, refused, bug }) {
    if (ask !== "simulate" || id !== this.id || !this.running) return;
    if (refused ?? bug) {
      this.trouble = refused ?? bug;
      this.running = false;
    }
    for (const part of parts ?? []) {
      if (part.total) this.total = part.total;
      for (const [series, x, test_error, auc, train_loss] of part.dots) this.dots.push({ series, x, test_error, auc, train_loss });
    }
    if (done) this.running = false;
    this.changed();
  }

  changed() {
    this.dispatchEvent(new Event("change"));
  }
}
