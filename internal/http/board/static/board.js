"use strict";
// The board works without this script. The script adds the reply as it comes, keys, and a list that
// stays fresh. Whatever has structure is made by the server: the script reads the page again and
// exchanges its parts. The only foreign text that it handles itself is the reply, as text nodes.

const session = document.getElementById("session");
const list = document.querySelector("[data-poll]");

// printable is internal/text/printable's Text.
function printable(text) {
  return text
    .replace(/[\r\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, "")
    .replace(/[\u2028\u2029]/g, "\n")
    .replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "\ufffd");
}

// later says whether the event id a (MS-SEQ.INDEX) is later than b; "" is before all.
function later(a, b) {
  const x = a.split(/[-.]/).map(Number), y = b.split(/[-.]/).map(Number);
  if (!b) return true;
  for (let i = 0; i < 3; i++) if (x[i] !== y[i]) return x[i] > y[i];
  return false;
}

async function fetchPage() {
  const response = await fetch(location.pathname + location.search, { headers: { Accept: "text/html" }, cache: "no-store" });
  if (response.redirected && new URL(response.url).pathname === "/board/login") location.reload();
  if (!response.ok && response.status !== 404) throw new Error(response.status);
  return new DOMParser().parseFromString(await response.text(), "text/html");
}

function atBottom() {
  return innerHeight + scrollY >= document.documentElement.scrollHeight - 120;
}

// stable is a part's HTML. That the times of a transcript have grown older is no reason to exchange
// it: the user may be selecting text.
function stable(part) {
  return part.id === "live" ? part.innerHTML : part.innerHTML.replace(/ data-(left|running)="\d+"/g, "").replace(/>[^<]*<\/time>/g, "></time>");
}

// exchange replaces parts of a page, and keeps the parts that the user opened and the selection.
function exchange(from, parts) {
  const bottom = atBottom(), focused = document.activeElement && document.activeElement.id;
  for (const old of parts) {
    const fresh = from.getElementById(old.id);
    if (!fresh || stable(fresh) === stable(old)) continue;
    const open = [...old.querySelectorAll("details")].map((d) => d.open);
    const node = document.importNode(fresh, true);
    node.querySelectorAll("details").forEach((d, i) => { d.open = Boolean(open[i]); });
    old.replaceWith(node);
  }
  countDown();
  if (focused && document.activeElement.id !== focused) document.getElementById(focused)?.focus();
  const same = selectedKey ? rows().findIndex((row) => row.dataset.row === selectedKey) : -1;
  select(same < 0 ? selected : same, false);
  return bottom;
}

// ---- one session

if (session) {
  let recent = []; // pieces of the reply since the last reading of the page began
  let reading = false, again = false, timer = 0, slow = 0;

  const append = (e) => {
    if (e.turn !== session.dataset.turn || !later(e.id, session.dataset.after)) return;
    const reply = document.getElementById("reply");
    if (!reply) return;
    const bottom = atBottom();
    let last = reply.lastElementChild;
    if (!last || last.className !== "text " + e.type) {
      last = document.createElement("div");
      last.className = "text " + e.type;
      reply.append(last);
    }
    last.append(printable(e.text || ""));
    session.dataset.after = e.id;
    if (bottom) scrollTo(0, document.documentElement.scrollHeight);
  };

  const read = async () => {
    timer = 0;
    if (reading) { again = true; return; }
    reading = true;
    recent = [];
    try {
      const page = await fetchPage();
      const fresh = page.getElementById("session");
      if (!fresh) { location.reload(); return; }
      const bottom = exchange(page, document.querySelectorAll("#session > [data-part]"));
      session.dataset.turn = fresh.dataset.turn;
      session.dataset.after = fresh.dataset.after;
      recent.forEach(append);
      if (bottom) scrollTo(0, document.documentElement.scrollHeight);
    } catch (e) {
      again = true; // the gateway is away
      await new Promise((resolve) => setTimeout(resolve, 1000));
    }
    reading = false;
    if (again) { again = false; soon(); }
  };
  const soon = () => { if (!timer) timer = setTimeout(read, 150); };
  // The server renders the paragraphs that are whole. A fence, also one that is still open, is none.
  const render = () => {
    slow = 0;
    const text = document.getElementById("reply")?.lastElementChild?.textContent ?? "";
    if (/\n\s*\n/.test(text.replace(/^(```|~~~)[^]*?(?:^\1|(?![^]))/gm, ""))) soon();
  };

  if (session.dataset.stream) {
    let source, place = session.dataset.after;
    const open = () => {
      source = new EventSource(session.dataset.stream + (place ? "?after=" + encodeURIComponent(place) : ""));
      source.onmessage = (message) => {
        const e = JSON.parse(message.data);
        e.id = message.lastEventId;
        if (e.id && e.type !== "gap" && e.type !== "reset") place = e.id;
        if (e.type === "text" || e.type === "thought") {
          recent.push(e);
          if (e.turn === session.dataset.turn) append(e); else soon();
          slow ||= setTimeout(render, 2000);
        } else if (e.type !== "usage" && e.type !== "raw") {
          soon();
        }
      };
      source.onerror = () => { // the browser opens it again, unless it was refused
        if (source.readyState === EventSource.CLOSED) setTimeout(() => { soon(); open(); }, 2000);
      };
    };
    open();
    setInterval(() => { if (!document.hidden) soon(); }, 15000); // deliveries fail without an event
    addEventListener("pagehide", () => source.close());
    addEventListener("pageshow", (e) => { if (e.persisted) { soon(); open(); } });
    if (!location.hash) scrollTo(0, document.documentElement.scrollHeight);
  }
  const url = new URL(location);
  if (url.searchParams.has("done")) { // the note is for once
    url.searchParams.delete("done");
    url.searchParams.delete("n");
    history.replaceState(null, "", url);
  }
  document.getElementById("message")?.addEventListener("keydown", (e) => {
    if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); e.target.form.requestSubmit(); }
  });
}

// Countdowns begin with the time left by Redis' clock, not by this machine's. What runs counts up.
const ends = new WeakMap(); // element -> [the time left, its end by this page's clock]
function countDown() {
  for (const until of document.querySelectorAll("time[data-left]")) {
    const ms = until.dataset.left;
    if (ends.get(until)?.[0] !== ms) ends.set(until, [ms, performance.now() + Number(ms)]);
    until.textContent = within(Math.max(0, Math.ceil((ends.get(until)[1] - performance.now()) / 1000)));
  }
  for (const running of document.querySelectorAll("time[data-running]")) {
    const ms = running.dataset.running;
    if (ends.get(running)?.[0] !== ms) ends.set(running, [ms, performance.now() - Number(ms)]);
    running.textContent = lasted(Math.floor((performance.now() - ends.get(running)[1]) / 1000));
  }
}

function within(s) {
  const two = (n) => String(n).padStart(2, "0"), m = Math.floor(s / 60), h = Math.floor(m / 60);
  if (h >= 48) return "in " + Math.floor(h / 24) + " days";
  if (h) return "in " + h + ":" + two(m % 60) + ":" + two(s % 60) + " h";
  if (m) return "in " + m + ":" + two(s % 60) + " min";
  return s ? "in " + s + " s" : "now";
}

function lasted(s) {
  const m = Math.floor(s / 60), h = Math.floor(m / 60);
  return h ? h + " h " + m % 60 + " min" : m ? m + " min " + s % 60 + " s" : s + " s";
}
countDown();
setInterval(countDown, 1000);

// ---- the list

// inPlace gives the rows of a page that was read again the order of this one, so that none moves below the pointer. New
// rows come first.
function inPlace(page) {
  const places = new Map([...document.querySelectorAll("tr[data-row]")].map((row, i) => [row.dataset.row, i]));
  const fresh = [...page.querySelectorAll("tr[data-row]")];
  const place = (row) => places.get(row.dataset.row) ?? -1;
  fresh.sort((a, b) => place(a) - place(b));
  fresh[0]?.parentNode.append(...fresh);
}

if (list) {
  setInterval(async () => {
    if (document.hidden) return;
    try {
      const page = await fetchPage();
      inPlace(page);
      exchange(page, [document.getElementById("live")]);
    } catch { /* the next one may succeed */ }
  }, Number(list.dataset.poll));
}

// ---- keys

const rows = () => [...document.querySelectorAll("[data-row]")];
let selected = -1, selectedKey = ""; // a place, and the session there in a list

function select(i, scroll = true) {
  const all = rows();
  all.forEach((row) => row.classList.remove("selected"));
  if (i < 0 || !all.length) { selected = -1; return; }
  selected = Math.min(i, all.length - 1);
  selectedKey = all[selected].dataset.row;
  all[selected].classList.add("selected");
  if (scroll) all[selected].scrollIntoView({ block: "nearest" });
}

const help = document.getElementById("help"), helpOpen = document.getElementById("help-open");
helpOpen.hidden = false;
helpOpen.addEventListener("click", () => help.showModal());

addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || help.open) return;
  const typing = e.target.closest("input, textarea, select, button, a, summary");
  if (e.key === "Escape" && typing) { e.target.blur(); return; }
  if (typing && (e.key === "Enter" || e.target.matches("input, textarea, select"))) return;
  switch (e.key) {
    case "/":
      (document.getElementById("message") || document.getElementById("search"))?.focus();
      break;
    case "j": select(selected < 0 && session ? rows().length - 1 : selected + 1); break;
    case "k": select(selected < 0 && session ? rows().length - 1 : Math.max(selected - 1, 0)); break;
    case "u": location.href = "/board/"; break;
    case "?": help.showModal(); break;
    case "Enter": {
      const row = rows()[selected];
      const link = row?.querySelector("a"), details = row?.querySelector("details");
      if (link) link.click(); else if (details) details.open = !details.open; else return;
      break;
    }
    default: return;
  }
  e.preventDefault();
});
