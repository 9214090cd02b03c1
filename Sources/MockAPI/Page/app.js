// The complete client. The browser stores a cookie that scripts cannot read; the gateway stores the tokens and
// refreshes them.

/** The error of a failed request: a problem document of the gateway, or a substitute. */
class Problem extends Error {
  constructor({ code, detail, reason = null, retryAfter = null }) {
    super(detail);
    Object.assign(this, { code, reason, retryAfter });
  }

  static async from(answer, sentence) {
    const retryAfter = Number(answer.headers.get("Retry-After")) || null;
    const isProblem = answer.headers.get("Content-Type")?.startsWith("application/problem+json");
    const document = isProblem ? await answer.json().catch(() => null) : null;
    // The body is from the API, not from the gateway, and is not meant for users.
    return document ? new Problem({ ...document, retryAfter }) : new Problem({ code: "failed_request", detail: sentence });
  }
}

/** Sends a request to the origin of the page; the browser adds the cookie. */
async function call(method, path, { body, sentence = "Something went wrong." } = {}) {
  const headers = { Accept: "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body && JSON.stringify(body), cache: "no-store" });
  } catch {
    throw new Problem({ code: "network", detail: "You need a network connection." });
  }
  if (!answer.ok) throw await Problem.from(answer, sentence);
  if (answer.status === 204) return null;
  try {
    return await answer.json();
  } catch {
    throw new Problem({ code: "invalid_response", detail: sentence });
  }
}

const element = (id) => document.getElementById(id);
const copy = (id) => element(id).content.firstElementChild.cloneNode(true);
const show = (id, isShown) => { element(id).hidden = !isShown; };

let user = null;
/** The episode to play after sign-in. */
let wanted = null;

// -- Messages

/** Shows a message above the list; `again` is the action of the retry button, if a retry is possible. */
function say(text, { code = "done", again = null } = {}) {
  element("message").dataset.code = code;
  element("message-text").textContent = text;
  show("message", true);
  show("retry", again !== null);
  element("retry").onclick = () => { hush(); again(); };
  element("message").scrollIntoView({ block: "nearest" });
}

function hush() {
  show("message", false);
  show("form-message", false);
}

/** Handles every failed request except a sign-in. */
function report(problem, again) {
  if (!(problem instanceof Problem)) throw problem;
  if (problem.code === "unauthorized") {
    signedOut();
    say(problem.message, problem);
    element("email").focus();
    return;
  }
  say(problem.message, { code: problem.code, again });
}

// -- Current user

function signedIn(who) {
  user = who;
  element("name").textContent = user.name || user.email;
  show("account", true);
  show("sign-in", false);
  listSessions();
}

function signedOut() {
  user = null;
  stop();
  show("account", false);
  show("sessions", false);
  show("sign-in", true);
  element("session-list").replaceChildren();
}

async function whoAmI() {
  try {
    signedIn((await call("GET", "/auth")).user);
  } catch (problem) {
    if (problem.code !== "unauthorized") return report(problem, whoAmI);
    signedOut();
    // A first visit shows no message; an ended session does.
    if (problem.reason !== "no_session") say(problem.message, problem);
  }
}

element("form").addEventListener("submit", async (event) => {
  event.preventDefault();
  hush();
  const [email, password] = [element("email"), element("password")];
  const submit = element("submit");
  submit.disabled = true;
  try {
    const body = { email: email.value, password: password.value };
    const { user } = await call("POST", "/auth", { body, sentence: "You could not be signed in." });
    for (const field of [email, password]) field.removeAttribute("aria-invalid");
    email.value = "";
    submit.disabled = false;
    signedIn(user);
    say(`Welcome, ${user.name || user.email}.`);
    if (wanted) play(wanted); else element("message").focus();
  } catch (problem) {
    if (!(problem instanceof Problem)) throw problem;
    const message = element("form-message");
    message.dataset.code = problem.code;
    message.textContent = problem.message;
    message.hidden = false;
    const isInput = problem.code === "invalid_input";
    for (const field of [email, password]) field.setAttribute("aria-invalid", String(isInput));
    if (problem.code === "throttled" && problem.retryAfter) {
      await countDown(problem, message);
    }
    submit.disabled = false;
    (isInput ? email : password).focus();
  } finally {
    password.value = "";
  }
});

/** Disables the form until the time given by the gateway. */
async function countDown(problem, message) {
  for (let seconds = problem.retryAfter; seconds > 0; seconds -= 1) {
    message.textContent = `${problem.message} (${seconds} s)`;
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
  message.textContent = "You may try again now.";
}

element("sign-out").addEventListener("click", async function signOut() {
  hush();
  try {
    const continuation = await call("DELETE", "/auth", { sentence: "You could not be signed out." });
    // A session of an identity provider ends there too.
    if (continuation?.next) return location.assign(continuation.next);
    wanted = null;
    signedOut();
    say("You are signed out.");
    element("message").focus();
  } catch (problem) {
    report(problem, signOut);
  }
});

// -- Episodes

async function listEpisodes() {
  try {
    const episodes = await call("GET", "/episodes", { sentence: "The list of episodes could not be fetched." });
    element("episodes").replaceChildren(...episodes.map(entry));
    show("loading", false);
  } catch (problem) {
    show("loading", false);
    report(problem, listEpisodes);
  }
}

function entry(episode) {
  const item = copy("episode");
  item.querySelector("img").src = episode.imageURL;
  item.querySelector("h3").textContent = `${episode.number}. ${episode.title}`;
  item.querySelector("p").textContent = episode.excerpt;
  const button = item.querySelector("button");
  button.setAttribute("aria-label", `Play ${episode.title}`);
  button.addEventListener("click", () => play(episode));
  return item;
}

async function play(episode) {
  wanted = episode;
  hush();
  try {
    const video = await call("GET", `/videos/${episode.videoID}`, { sentence: "This episode could not be fetched." });
    wanted = null;
    const minutes = `${Math.floor(video.duration / 60)}:${String(video.duration % 60).padStart(2, "0")} min`;
    element("player-title").textContent = episode.title;
    element("player-facts").textContent = `${episode.excerpt} (${minutes}; here: a clip of six seconds)`;
    const screen = element("video");
    screen.poster = video.imageURL;
    screen.src = video.videoURL;
    screen.onerror = () => explain(episode, video.videoURL);
    show("player", true);
    element("player-title").focus();
    // Browsers may block autoplay; the user can start with the controls.
    screen.play().catch(() => {});
  } catch (problem) {
    report(problem, () => play(episode));
  }
}

/** Media elements do not report why loading failed. A request for the first byte does. */
async function explain(episode, address) {
  stop();
  let problem = new Problem({ code: "failed_request", detail: "This episode could not be played." });
  try {
    const answer = await fetch(address, { headers: { Range: "bytes=0-0" }, cache: "no-store" });
    if (!answer.ok) problem = await Problem.from(answer, problem.message);
  } catch {
    problem = new Problem({ code: "network", detail: "You need a network connection." });
  }
  wanted = episode;
  report(problem, () => play(episode));
}

function stop() {
  const screen = element("video");
  screen.onerror = null;
  screen.removeAttribute("src");
  screen.removeAttribute("poster");
  screen.load();
  show("player", false);
}

// -- Sessions

const when = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

async function listSessions() {
  try {
    const { sessions } = await call("GET", "/auth/sessions", { sentence: "Your sessions could not be fetched." });
    element("session-list").replaceChildren(...sessions.map(sessionEntry));
    show("end-others", sessions.length > 1);
    show("sessions", true);
  } catch (problem) {
    // The list is loaded automatically, so only an ended session is reported.
    show("sessions", false);
    if (problem.code === "unauthorized") report(problem);
  }
}

function sessionEntry(session) {
  const item = copy("session");
  const name = session.userAgent || "An unnamed client";
  item.querySelector("strong").textContent = session.current ? "Here" : name;
  item.querySelector("span").textContent =
    `${session.current ? `${name}, ` : ""}${session.address}, since ${when.format(new Date(session.createdAt))}`;
  const button = item.querySelector("button");
  button.hidden = session.current;
  button.setAttribute("aria-label", `End the session of ${name} at ${session.address}`);
  button.addEventListener("click", () => end(`/auth/sessions/${session.id}`));
  return item;
}

async function end(path) {
  hush();
  try {
    await call("DELETE", path, { sentence: "The session could not be ended." });
    await listSessions();
    element("sessions-title").scrollIntoView({ block: "nearest" });
  } catch (problem) {
    report(problem, () => end(path));
  }
}

element("end-others").addEventListener("click", () => end("/auth/sessions"));

listEpisodes();
whoAmI();
