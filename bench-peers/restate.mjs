// A virtual object for each session: Restate runs one handler of a key at a time, in the order of the
// requests. Requests are one-way, so that a sender waits until Restate has stored one, not until it is
// handled. Handlers run from the first request on.
import * as restate from "@restatedev/restate-sdk";
import http from "node:http";
import http2 from "node:http2";
import { handle, job, name, obey } from "./child.mjs";

// The SDK calls this, which Node.js has since version 22.
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const [ingress, admin] = job.address.split(" ");

const session = restate.object({ name: "session", handlers: { turn: (_, message) => handle(message) } });
const server = http2.createServer(restate.endpoint().bind(session).http2Handler());
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const uri = `http://127.0.0.1:${server.address().port}`;
const registered = await fetch(`${admin}/deployments`, {
  method: "POST",
  headers: { "content-type": "application/json" },
  body: JSON.stringify({ uri }),
});
if (!registered.ok) throw new Error(`register the service: ${registered.status} ${await registered.text()}`);

const agent = new http.Agent({ keepAlive: true });

function send(to, message) {
  return new Promise((resolve, reject) => {
    const request = http.request(
      `${ingress}/session/${name(to)}/turn/send`,
      { method: "POST", agent, headers: { "content-type": "application/json" } },
      (response) => {
        response.resume();
        response.on("end", () =>
          response.statusCode === 202 ? resolve() : reject(new Error(`send: status ${response.statusCode}`)),
        );
      },
    );
    request.on("error", reject);
    request.end(JSON.stringify(message));
  });
}

await obey({ send });
