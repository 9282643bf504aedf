// What is asked, what has come, and for which state: the one place that knows what may be shown.
//
// An answer belongs to the state it was asked for. Of two answers of a kind the one that was asked
// for later is the newer, whatever the order in which they come; an older one is never shown again.

import { keyOf, kinds } from "./state.js";

const UNDER_WAY = 2; // quick questions at once: the next is computed while one travels
const GONE = 2000; // milliseconds after which a quick answer is not waited for
const AGAIN = 30000; // and any other

export class Answers extends EventTarget {
  constructor(connection) {
    super();
    this.connection = connection;
    this.shown = {}; // by kind: {id, key, words, answer}
    this.asked = {}; // by kind: questions without an answer, {id, key, words, at}
    this.newest = {}; // by kind: the number of the last question
    this.trouble = {}; // by kind: {id, key, text}
    this.next = {}; // of quick kinds: words to be asked for when there is room
    connection.addEventListener("answer", (event) => this.take(event.detail));
    connection.addEventListener("lost", () => {
      this.asked = {};
      this.next = {};
    });
  }

  // Make sure that the answer of this state is there or on its way.
  want(kind, words) {
    const key = keyOf(kind, words);
    if (this.current(kind, words) || this.trouble[kind]?.key === key) {
      // what is still asked is of another state: it would take this one's place
      this.asked[kind] = [];
      delete this.next[kind];
      return;
    }
    const now = performance.now();
    const quick = kinds[kind].quick;
    const waiting = (this.asked[kind] ?? []).filter(({ at }) => now - at < (quick ? GONE : AGAIN));
    this.asked[kind] = waiting;
    // the newest question alone is sure to be answered: the server drops older ones
    if (waiting.at(-1)?.key === key && waiting.at(-1).id === this.newest[kind]) {
      delete this.next[kind];
      return;
    }
    if (quick && waiting.length >= UNDER_WAY) {
      this.next[kind] = words;
      return;
    }
    const id = this.connection.ask(kind, words);
    if (!id) return;
    waiting.push({ id, key, words, at: now });
    this.newest[kind] = id;
  }

  // The answer, if it is that of this state and complete.
  current(kind, words) {
    const shown = this.shown[kind];
    return shown && shown.key === keyOf(kind, words) && !shown.partial ? shown : null;
  }

  // The sentence of a question of this state that failed.
  failed(kind, words) {
    const trouble = this.trouble[kind];
    return trouble && trouble.key === keyOf(kind, words) ? trouble.text : "";
  }

  // Ask once more for all that failed.
  forgive() {
    this.trouble = {};
  }

  waiting(kind) {
    return (this.asked[kind] ?? []).length > 0;
  }

  take(message) {
    const { ask: kind, id } = message;
    const question = (this.asked[kind] ?? []).find((each) => each.id === id);
    if (!question) return;
    if (message.parts && !message.done) question.at = performance.now();
    else this.asked[kind] = this.asked[kind].filter((each) => each.id > id || (each.id < id && kinds[kind].quick));
    const { key, words } = question;
    if (message.refused !== undefined || message.bug !== undefined) {
      if (!(this.trouble[kind]?.id > id)) this.trouble[kind] = { id, key, text: message.refused ?? message.bug };
    } else if (!(this.shown[kind]?.id > id)) {
      delete this.trouble[kind];
      if (message.parts) this.join(kind, question, message);
      else this.shown[kind] = { id, key, words, answer: message.answer };
    }
    const next = this.next[kind];
    if (next) {
      delete this.next[kind];
      this.want(kind, next);
    }
    this.dispatchEvent(new CustomEvent("change", { detail: kind }));
  }

  // Parts of an answer: cells are collected, all else is the newest.
  join(kind, { id, key, words }, { parts, done }) {
    let shown = this.shown[kind];
    if (shown?.id !== id) shown = { id, key, words, answer: { cells: [] } };
    for (const part of parts) {
      const draft = part.draft ?? false;
      for (const [column, line, value, error] of part.cells ?? []) {
        const place = `${column},${line}`;
        const before = shown.answer.cells.find((cell) => cell.place === place);
        if (before && draft) continue;
        if (before) Object.assign(before, { value, error, draft });
        else shown.answer.cells.push({ place, column, line, value, error, draft });
      }
      for (const [name, value] of Object.entries(part)) if (name !== "cells") shown.answer[name] = value;
    }
    shown.partial = !done;
    this.shown[kind] = shown;
  }
}
