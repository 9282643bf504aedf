// One WebSocket to the server: opened again whenever it is lost, and lost when nothing is heard.

const SILENCE = 5500; // milliseconds; the server says "alive" every two seconds
const HANDSHAKE = 4000;
const PAUSES = [100, 250, 500, 1000, 2000];

export class Connection extends EventTarget {
  constructor() {
    super();
    this.open = false;
    this.ever = false;
    this.count = 0;
    this.failures = 0;
    this.connect();
    setInterval(() => this.listen(), 500);
    for (const event of ["online", "pageshow"]) addEventListener(event, () => this.hurry());
    document.addEventListener("visibilitychange", () => document.hidden || this.hurry());
  }

  // The number of the question, 0 if nobody can be asked.
  ask(kind, words) {
    if (!this.open) return 0;
    this.count += 1;
    this.socket.send(JSON.stringify({ ask: kind, id: this.count, words }));
    return this.count;
  }

  connect() {
    clearTimeout(this.timer);
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/talk`);
    this.socket = socket;
    this.heard = performance.now();
    socket.onmessage = (event) => {
      if (socket !== this.socket) return;
      this.heard = performance.now();
      const message = JSON.parse(event.data);
      if (!this.open) {
        this.open = this.ever = true;
        this.failures = 0;
        this.dispatchEvent(new Event("open"));
      }
      if (message.ask !== "alive") this.dispatchEvent(new CustomEvent("answer", { detail: message }));
    };
    socket.onclose = () => socket === this.socket && this.lose();
  }

  // Also where the operating system keeps a connection to a server that has stopped.
  listen() {
    if (!this.socket) return;
    const silent = performance.now() - this.heard;
    if (silent > (this.open ? SILENCE : HANDSHAKE)) this.lose();
  }

  lose() {
    const socket = this.socket;
    this.socket = null;
    socket.close();
    const was = this.open;
    this.open = false;
    if (was || this.failures === 0) this.dispatchEvent(new Event("lost"));
    const pause = PAUSES[Math.min(this.failures, PAUSES.length - 1)];
    this.failures += 1;
    this.timer = setTimeout(() => this.connect(), pause);
  }

  hurry() {
    if (this.socket) return;
    this.connect();
  }
}
