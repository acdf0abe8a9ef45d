// Follows a session's events with EventSource and with fetch-event-source, and tells of each one's
// events: CLIENT and the type, or the reply of a turn's end.
//
//   BASE=http://127.0.0.1:8081 node events.mjs SESSION
import { EventSource } from "eventsource";
import { fetchEventSource } from "@microsoft/fetch-event-source";

const url = `${process.env.BASE}/v1/sessions/${process.argv[2]}/events`;
const tell = (client) => ({ data }) => {
  if (!data) return;
  const event = JSON.parse(data);
  console.log(client, event.reply ?? event.type);
};

new EventSource(url).onmessage = tell("EventSource");

// The library is made for pages, and asks these for their visibility.
globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
fetchEventSource(url, { openWhenHidden: true, onmessage: tell("fetch-event-source") })
  .then(() => console.log("fetch-event-source has ended"));
