// The page of a server: docs/serve.md describes its routes, docs/nesting.md the channel.
const narrow = () => matchMedia("(max-width: 800px)").matches;
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
const app = $("app"), talk = $("talk");
let token = sessionStorage.getItem("token") || "";
let offered = [];   // the agents
let served = [];    // the runs of GET /v1/runs
let stored = [];    // the listed sessions
let current = null; // the chosen Run; null: a new conversation
let target = null;  // the sub-agent that messages go to
const runs = new Map(); // those that this page has opened, by key

async function api(path, options = {}) {
	const answer = await fetch(path, { ...options, headers: token ? { Authorization: "Bearer " + token } : {} });
	if (answer.ok) return answer;
	const tried = token;
	if (answer.status === 401) signedOut();
	if (answer.status === 401) throw new Error(tried ? "This is not a token of the server." : "");
	throw new Error((await answer.json().catch(() => ({}))).error?.message || `the server answers with status ${answer.status}`);
}
function note(text, bad = true) {
	$("note").textContent = text;
	$("note").classList.toggle("bad", bad);
}
const reported = (action) => async (...args) => { try { await action(...args); } catch (error) { note(error.message); } };

// --- Events -----------------------------------------------------------------

// An agent is one session of the tree: its box holds its conversation.
const isLive = (state) => state === "running" || state === "question";
const begins = (e) => e.kind === "message" && !e.depth && !e.opening && !e.attempt && !e.closing && !e.input;
const add = (u, v) => { for (const k in v) if (typeof v[k] === "number") u[k] = (u[k] || 0) + v[k]; };

class Run {
	constructor(slug, session = "") {
		Object.assign(this, { slug, session, key: session || "new-" + Math.random(), title: "", state: "idle", questions: [], grants: new Set(), draft: "" });
		this.clear();
		runs.set(this.key, this);
	}
	clear() {
		Object.assign(this, { agents: new Map(), calls: new Map(), view: el("div"), seq: 0, tries: 0, questions: [] });
	}
	get live() { return isLive(this.state); }
	get usage() {
		const sum = {};
		for (const a of this.agents.values()) add(sum, a.usage);
		return sum;
	}
	agent(e) {
		let a = this.agents.get(e.session);
		if (a || !e.session) return a;
		const call = this.calls.get(e.parent);
		a = { session: e.session, slug: e.agent, depth: e.depth || 0, call, status: "running", doing: "", usage: {}, began: time(e.time), box: el("div"), turn: null };
		this.agents.set(e.session, a);
		if (!call) { this.view.append(a.box); return a; }
		a.stop = el("button", { class: "x", type: "button", text: "Stop", onclick: () => this.cancel(a) });
		call.node.classList.replace("k-tool", "k-agent");
		call.below.append(el("div", { class: "nested" }, el("div", { class: "nested-head", text: a.slug }, a.stop), a.box));
		return a;
	}
	apply(e) {
		const a = this.agent(e);
		if (e.seq) this.seq = e.seq;
		if (!this.session && e.session && !e.depth) {
			runs.delete(this.key);
			this.session = this.key = e.session;
			runs.set(this.key, this);
			if (current === this) history.replaceState(null, "", "#" + this.session);
		}
		if (a && e.usage && e.kind !== "end") add(a.usage, e.usage);
		show[e.kind]?.(this, a, e);
		draw();
	}
	turn(a, n) {
		if (a.turn?.n !== n || !a.turn) {
			const head = el("div", { class: "turn-head" });
			a.turn = { n, head, box: el("article", { class: "turn" }, head) };
			a.box.append(a.turn.box);
		}
		return a.turn;
	}
	note(a, text, kind = "note") { (a?.turn?.box || a?.box || this.view).append(el("div", { class: "message " + kind, text })); }

	// load shows the stored events, and connects to a run in progress, which sends those of
	// that run itself.
	async load() {
		const going = served.some((r) => r.session === this.session && isLive(r.state));
		let events = [];
		try {
			events = (await (await api("v1/sessions/" + this.session)).text()).split("\n").filter(Boolean).map((line) => JSON.parse(line));
		} catch (error) {
			if (!going) throw error;
		}
		if (going) {
			const last = events.findLastIndex(begins);
			events = last > events.findIndex(begins) ? events.slice(0, last) : [];
		}
		events.forEach((e) => this.apply({ ...e, seq: 0 }));
		if (going) this.connect({ session: this.session });
		else if (this.live) this.state = "unfinished";
	}
	connect(start) {
		this.state = "running";
		this.seq = start.from || 0;
		const from = start.from, url = new URL(`v1/agents/${encodeURIComponent(this.slug)}/channel`, location.href);
		url.protocol = url.protocol.replace("http", "ws");
		url.hash = "";
		const bytes = String.fromCharCode(...new TextEncoder().encode(token));
		const secret = btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
		const socket = this.socket = new WebSocket(url, token ? ["agents.channel", "bearer." + secret] : ["agents.channel"]);
		let first = true;
		socket.onopen = () => { note(""); socket.send(JSON.stringify({ kind: "start", channel: 1, ...start })); };
		socket.onmessage = ({ data }) => {
			const e = JSON.parse(data);
			if (first && from && e.seq !== from + 1 && e.kind !== "end") { // another server continues the run
				socket.onclose = null;
				socket.close();
				this.clear();
				if (current === this) talk.replaceChildren(this.view);
				api("v1/runs").then((a) => a.json()).then((list) => { served = list.runs; return this.load(); }).catch((error) => note(error.message));
				return;
			}
			first = false;
			this.tries = 0;
			const bottom = talk.scrollHeight - talk.scrollTop - talk.clientHeight < 80;
			this.apply(e);
			if (current === this && bottom) talk.scrollTop = talk.scrollHeight;
		};
		socket.onclose = ({ code, reason }) => {
			if (this.socket !== socket || !this.live) return;
			if (code === 4409) {
				this.state = "elsewhere";
				this.note(null, "Another client has taken over this conversation. Select it in the list to take it back.");
			} else if (this.session && code !== 1008 && this.tries++ < 20) {
				note("The connection was lost. Reconnecting …");
				setTimeout(() => this.connect({ session: this.session, from: this.seq }), Math.min(500 * this.tries, 5000));
			} else {
				this.state = "failed";
				this.note(null, `The connection ended: ${reason || `code ${code}`}`, "error");
			}
			draw();
		};
	}
	send(message) {
		if (this.socket?.readyState !== WebSocket.OPEN) { note("There is no connection at the moment."); return false; }
		this.socket.send(JSON.stringify(message));
		return true;
	}
	cancel(a) { this.send({ kind: "cancel", ...(a?.depth ? { session: a.session } : {}), reason: "stopped in the page" }); }
	reply(q, answer) {
		if (!this.send({ kind: "reply", question: q.question, answer })) return;
		this.answered((o) => o === q);
	}
	// decided removes the question about a call: a run in progress sends those that were answered too.
	decided(e) { this.answered((q) => q.what === "approve" && q.key === e.key && q.session === e.session); }
	answered(which) {
		this.questions = this.questions.filter((q) => !which(q));
		if (this.live) this.state = this.questions.length ? "question" : "running";
		draw();
	}
}

const show = {
	session(run, a, e) { a.model = e.model; },
	message(run, a, e) {
		const parts = e.message?.parts || [];
		if (e.opening) return a.box.append(message("user", "Opening: " + e.message.role, parts));
		if (e.attempt || e.closing) return run.note(a, `${e.error || "The answer is asked for"}\n${textOf(parts)}`);
		a.status = "running";
		a.turn = null;
		if (e.input) run.view.querySelector(".pending")?.remove();
		if (begins(e)) { run.state = "running"; run.title ||= oneLine(textOf(parts), 200); }
		a.box.append(message("user", e.depth ? "Task" : "You", parts));
	},
	request(run, a, e) { a.doing = e.summary ? "shortens its context" : "thinks"; },
	reasoning: (run, a, e) => live(run, a, e, "reasoning"),
	text: (run, a, e) => live(run, a, e, "text"),
	retry(run, a, e) {
		a.live?.remove();
		a.live = null;
		run.note(a, `The request is repeated: ${e.error}`);
	},
	answer(run, a, e) {
		const turn = run.turn(a, e.turn), u = e.usage || {};
		a.live?.remove();
		a.live = null;
		const facts = [took(e.millis || 0), `${num(u.input_tokens)} in`, `${num(u.output_tokens)} out`, u.priced ? cost(u) : "", e.model || ""];
		turn.head.replaceChildren(el(a.depth ? "h4" : "h3", { text: "Turn " + e.turn }), el("span", { text: facts.filter(Boolean).join(" · ") }));
		const shown = (e.message?.parts || []).filter((p) => p.kind === "media" || (p.text || "").trim());
		if (shown.length) turn.box.append(message("model", "", shown));
		if (e.finish && e.finish !== "stop") run.note(a, "The answer broke off: " + e.finish);
		a.doing = "";
	},
	failure(run, a, e) { // the event "end" says why
		if (e.summary) return run.note(a, e.error);
		a.live?.remove();
		a.live = null;
		if (e.message) run.turn(a, e.turn).box.append(message("model", "", e.message.parts || []));
	},
	compaction(run, a, e) { run.note(a, "Context shortened: " + (e.text || "")); },
	warning: (run, a, e) => run.note(a, e.text),
	call_started(run, a, e) {
		const again = run.calls.get(e.key); // its process died, and it is repeated
		if (again) { again.took.textContent = "runs"; a.doing = e.tool; return; }
		const c = { args: e.args || "", began: time(e.time) };
		c.took = el("span", { class: "took", text: "runs" });
		c.brief = el("span", { class: "brief", text: oneLine(argsBrief(c.args), 160) });
		[c.input, c.below, c.output] = [el("div"), el("div"), el("div")];
		c.node = el("details", { class: "call k-tool" }, el("summary", null, el("span", { class: "dot", "aria-hidden": "true" }), el("span", { class: "name", text: e.tool }), c.brief, c.took),
			el("div", { class: "body" }, c.input, c.below, c.output));
		fill.set(c.node, () => c.fill());
		c.fill = () => {
			c.input.replaceChildren(...(c.below.firstChild && argPairs(c.args).every(([k]) => k === "prompt") ? [] : argsView(c.args))); // it is its task
			const failed = c.result?.failed, parts = c.result?.parts || [];
			if (c.result) c.output.replaceChildren(el("div", { class: "label", text: failed ? "Result (failed)" : "Result" }), ...(parts.length ? parts.map(resultPart) : [el("p", { class: "facts", text: "empty" })]));
		};
		run.calls.set(e.key, c);
		run.decided(e);
		run.turn(a, e.turn).box.append(c.node);
		a.doing = e.tool;
	},
	verdict: (run, a, e) => run.decided(e),
	progress(run, a, e) {
		const c = run.calls.get(e.key);
		if (c && !c.result) c.took.textContent = oneLine(e.text || "", 60);
	},
	call_ended(run, a, e) {
		if (!run.calls.has(e.key)) show.call_started(run, a, e); // it was refused
		const c = run.calls.get(e.key), failed = !!e.result?.failed;
		c.result = e.result || {};
		c.node.classList.toggle("failed", failed);
		c.took.textContent = (failed ? "failed · " : "") + took(e.millis || 0);
		if (failed) c.brief.textContent = oneLine(textOf(c.result.parts), 160);
		if (c.node.open) c.fill();
		if (a.doing === e.tool) a.doing = "";
		run.answered((q) => q.key === e.key && q.session === e.session);
	},
	question(run, a, e) {
		if (!["approve", "ask", "elicit"].includes(e.what)) return;
		run.questions.push(e);
		run.state = "question";
		if (e.what === "approve" && run.grants.has(grant(e)) && grantable(e)) run.reply(e, { decision: "allow", reason: "a person allowed it before in this conversation" });
	},
	end(run, a, e) {
		if (a) { a.status = e.status; a.doing = ""; a.stop?.remove(); }
		run.answered((q) => q.session === e.session || !e.depth);
		if (e.status !== "ok") run.note(a, `Ended: ${e.status}${e.error ? "\n" + e.error : ""}`, "error");
		if (e.depth) return;
		run.state = e.status;
		for (const other of run.agents.values()) if (other.status === "running") other.status = e.status;
		if (a) a.turn = null;
		if (current === run) { aim(null); showFields(); }
		listSoon();
	},
};
// live shows a piece of an answer or of a reasoning as it comes.
function live(run, a, e, kind) {
	if (a.live?.dataset.kind !== kind) {
		a.live?.remove();
		a.live = el("div", { class: "message live" + (kind === "text" ? "" : " note"), "data-kind": kind });
		run.turn(a, e.turn).box.append(a.live);
	}
	a.live.append(e.text || "");
	a.doing = kind === "text" ? "writes" : "thinks";
}

// --- Questions, and fields for values of a schema -----------------------------

const grant = (q) => JSON.stringify([q.tool, q.source, q.digest]);
const grantable = (q) => q.reviewer !== "human" && q.approval !== "always";
// fieldsOf shows a field for each property of a schema, and returns a function that reads them.
function fieldsOf(into, schema, without = "") {
	const read = Object.entries(schema?.properties || {}).filter(([name]) => name !== without).map(([name, p]) => {
		const needed = (schema.required || []).includes(name), choices = p.enum || (p.type === "boolean" ? [true, false] : null);
		const kind = Array.isArray(p.type) ? p.type[0] : p.type || "string";
		const input = choices ? el("select", null, needed ? "" : el("option", { value: "", text: "" }), ...choices.map((c) => el("option", { value: JSON.stringify(c), text: String(c) })))
			: kind === "object" || kind === "array" ? el("textarea", { rows: "2", placeholder: "JSON" }) : el("input", { type: kind === "number" || kind === "integer" ? "number" : "text", step: "any" });
		if (needed) input.required = true;
		if (p.default !== undefined) input.value = typeof p.default === "string" && !choices ? p.default : JSON.stringify(p.default);
		into.append(el("label", { class: "field" }, el("span", { text: (p.title || name) + (p.description ? ": " + p.description : "") + (needed ? "" : " (optional)") }), input));
		return () => (input.value === "" ? [] : [[name, choices || kind !== "string" ? JSON.parse(input.value) : input.value]]);
	});
	return () => Object.fromEntries(read.flatMap((f) => f()));
}
function questionBox(run, q) {
	const box = el("form", { class: "question", tabindex: "-1", "aria-label": "Question" });
	const who = visible((q.path || []).join(" › ") || run.slug), choices = el("div", { class: "choices" });
	const since = performance.now(); // a click or key that was meant for something else
	const button = (text, kind, key, action) => choices.append(el("button", { class: "btn " + kind, type: "button", text, "data-key": key, onclick: () => { if (performance.now() - since > 500) reported(action)(); } }));
	if (q.what === "approve") {
		const reason = el("input", { type: "text", placeholder: "Reason, if you deny it", "aria-label": "Reason" });
		const decide = (decision, text) => run.reply(q, { decision, reason: text });
		box.append(el("p", null, el("b", { text: who }), " wants to call ", el("code", { text: visible(q.tool) })), ...argsView(q.args || ""));
		for (const text of [q.text, q.sandbox && "Sandbox: " + q.sandbox]) if (text) box.append(el("p", { class: "why", text: visible(text) }));
		button("Allow", "primary", "y", () => decide("allow", "a person allowed it"));
		if (grantable(q)) button(`Always allow ${q.tool} in this conversation`, "", "a", () => { run.grants.add(grant(q)); decide("allow", "a person allowed it"); });
		button("Deny", "stop", "d", () => decide("deny", "a person denied it" + (reason.value.trim() ? ": " + reason.value.trim() : "")));
		choices.append(reason);
	} else {
		box.append(el("p", null, el("b", { text: q.tool ? `${visible(q.tool)} of ${who}` : who }), " asks"), inline(el("p"), visible(q.text || "")));
		const schema = q.what === "elicit" ? q.schema : q.choices?.length ? null : { properties: { answer: { type: "string", title: "Your answer" } }, required: ["answer"] };
		const read = fieldsOf(box, schema);
		for (const c of (!schema && q.choices) || []) button(c, "", "", () => run.reply(q, c));
		const answer = () => run.reply(q, q.what === "elicit" ? { action: "accept", content: read() } : read().answer);
		if (schema || q.what === "elicit") choices.append(el("button", { class: "btn primary", text: "Answer" }));
		box.onsubmit = (e) => { e.preventDefault(); reported(answer)(); };
		button("Decline", "stop", "d", () => run.reply(q, q.what === "elicit" ? { action: "decline" } : undefined));
	}
	box.append(choices);
	return box;
}

// --- What is on the screen ------------------------------------------------------

let drawing = 0;
function draw() { drawing ||= setTimeout(() => { drawing = 0; redraw(); }, 30); }

// rows updates the rows of a list in place, so that the focus stays where it is.
function rows(into, list) {
	const old = new Map([...into.children].map((row) => [row.dataset.key, row]));
	const nodes = list.map((r) => {
		const row = old.get(r.key) || el("div", { class: "row", role: "listitem", "data-key": r.key },
			el("button", { class: "open", type: "button", onclick: () => row.open() }, el("span", { class: "line" }, el("i", { class: "dot", "aria-hidden": "true" }), el("b"), el("small")), el("small")),
			el("button", { class: "x", type: "button", text: "✕", onclick: () => row.stop() }));
		const [open, stop] = row.children, [line, small] = open.children;
		Object.assign(row, { open: r.open, stop: r.stop || null, className: `row is-${r.kind}${r.chosen ? " current" : ""}` });
		row.style.setProperty("--depth", Math.min(r.depth || 0, 6));
		const texts = [[line.children[1], r.title], [line.children[2], r.right], [small, r.small]];
		for (const [node, text] of texts) if (node.textContent !== text) node.textContent = text;
		small.hidden = !r.small;
		open.setAttribute("aria-current", r.chosen ? "true" : "false");
		stop.hidden = !r.stop;
		stop.setAttribute("aria-label", "Stop " + r.title);
		return row;
	});
	if (nodes.length !== into.children.length || nodes.some((n, i) => n !== into.children[i])) into.replaceChildren(...nodes);
}
const kindOf = (state) => (isLive(state) ? state : state === "ok" || state === "partial" ? "ok" : state === "idle" || !state ? "" : "bad");
const least = (u) => (u.priced ? (u.priced < u.requests ? "> " : "") + money(u.cost || 0) : "");
const words = { question: "asks you", running: "running", idle: "", elsewhere: "open elsewhere" };

function redraw() {
	const list = [], open = [...runs.values()].filter((r) => r.live);
	for (const run of open) {
		list.push({ key: run.key, title: run.title || run.slug, right: least(run.usage), small: `${run.slug} · ${words[run.state]}`, kind: run.state, chosen: run === current && !target, open: () => select(run), stop: () => run.cancel() });
		const below = [...run.agents.values()].filter((a) => a.depth);
		const done = below.filter((a) => a.status !== "running"), hidden = done.slice(0, Math.max(0, done.length - 20));
		for (const a of below) {
			if (hidden.includes(a)) continue;
			const going = a.status === "running", asks = run.questions.some((q) => q.session === a.session);
			list.push({ key: a.session, title: a.slug, right: least(a.usage), small: asks ? "asks you" : going ? a.doing || "running" : "", depth: a.depth, kind: (asks ? "question" : kindOf(a.status)) + " sub", chosen: target === a, open: () => select(run, a), stop: going ? () => run.cancel(a) : null });
		}
		if (hidden.length) list.push({ key: run.key + "+", title: `${hidden.length} more ended`, right: "", small: "", depth: 1, kind: " sub", open: () => select(run) });
	}
	for (const r of served) {
		if (!isLive(r.state) || (runs.get(r.session)?.state || "elsewhere") !== "elsewhere") continue;
		list.push({ key: r.session, title: r.prompt || r.agent, right: r.cost ? money(r.cost) : "", small: `${r.agent} · ${words[r.state]}${r.held ? " · open elsewhere" : ""}`, kind: r.state, chosen: current?.session === r.session, open: () => openSession(r.session, r.agent) });
	}
	rows($("running"), list);
	if (!list.length) $("running").replaceChildren(el("p", { class: "facts", text: "Nothing runs." }));
	const resting = stored.filter((s) => !list.some((r) => r.key === s.session));
	rows($("sessions"), resting.map((s) => ({ key: s.session, title: s.prompt || s.session, right: s.cost ? money(s.cost) : "", small: s.found ? oneLine(s.found, 200) : `${s.agent} · ${when(s.changed)}`, kind: kindOf(s.state), chosen: current?.session === s.session, open: () => openSession(s.session, s.agent) })));
	if (!resting.length) $("sessions").replaceChildren(el("p", { class: "facts", text: $("query").value ? "Nothing was found." : "There are no sessions yet." }));

	const asking = [...runs.values()].filter((r) => r.state === "question").length + served.filter((r) => r.state === "question" && !runs.has(r.session)).length;
	document.title = (asking ? `(${asking}) ` : "") + (current?.title ? oneLine(current.title, 60) + " – agents" : "agents");
	head();
}
function when(text) {
	const d = new Date(text), today = new Date().toDateString() === d.toDateString();
	return today ? d.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" }) : d.toLocaleDateString([], { year: "numeric", month: "short", day: "numeric" });
}
function head() {
	const run = current, u = run?.usage || {}, of = run && offered.find((a) => a.name === run.slug);
	$("title").textContent = run ? run.title || run.slug : "New conversation";
	const count = run ? [...run.agents.values()].filter((a) => a.depth && a.status === "running").length : 0;
	$("facts").textContent = run ? [run.slug, words[run.state] ?? run.state, count ? `${count} ${count === 1 ? "sub-agent" : "sub-agents"} at work` : "", u.requests ? `${brief(u.input_tokens)} in, ${brief(u.output_tokens)} out` : "", cost(u)].filter(Boolean).join(" · ") : "Choose an agent and write to it.";
	$("stop").hidden = !run?.live;
	$("page").hidden = !run?.session || run.live || !stored.some((s) => s.session === run.session);
	$("page").textContent = $("frame").hidden ? "Page" : "Conversation";
	const q = run?.questions[0], box = $("questions");
	if (box.dataset.question !== (q?.question || "")) {
		box.dataset.question = q?.question || "";
		box.replaceChildren(...(q ? [questionBox(run, q)] : []));
		if (q && ($("text").value === "" || document.activeElement !== $("text"))) box.firstChild.focus();
	}
	$("compose").hidden = !!run && !of;
	const only = !!(!run?.live && schemaOf()?.properties && !schemaOf().properties.prompt);
	$("text").hidden = only;
	$("text").placeholder = target ? `Message to ${target.slug}` : run?.live ? "Message to the running agent" : "Message";
	$("send").textContent = run?.live ? "Send" : run ? "Continue" : "Start";
}

// --- Conversations ----------------------------------------------------------------

let chosen = ""; // the agent of a new conversation
let readFields = () => ({});
const schemaOf = () => offered.find((a) => a.name === (current ? current.slug : chosen))?.schema;
function showFields() {
	$("fields").replaceChildren();
	readFields = current?.live ? () => ({}) : fieldsOf($("fields"), schemaOf(), "prompt");
}
function newView() {
	const choose = el("div", { class: "choose", role: "radiogroup", "aria-label": "Agent" });
	for (const a of offered) {
		const input = el("input", { type: "radio", name: "agent", value: a.name });
		input.checked = a.name === chosen;
		input.onchange = () => { chosen = a.name; showFields(); head(); };
		const tools = (a.tools || []).map((t) => t.name);
		choose.append(el("label", null, input, el("span", null, el("b", { text: a.name }), el("small", { text: a.description || "" }), tools.length ? el("small", { text: "Tools: " + oneLine(tools.join(", "), 200) }) : "")));
	}
	return choose;
}
function select(run, agent = null) {
	if (current) current.draft = $("text").value;
	if (current !== run || !run) {
		current = run;
		$("text").value = run?.draft || "";
		note("");
		showFrame(false);
		talk.replaceChildren(run ? run.view : newView());
		talk.scrollTop = run ? talk.scrollHeight : 0;
		showFields();
		grow();
	}
	app.dataset.view = "talk";
	const hash = run ? "#" + run.session : "#new";
	if (location.hash !== hash) history.pushState(null, "", hash);
	if (agent?.call) {
		for (let d = agent.call.node; d; d = d.parentElement.closest("details")) d.open = true;
		agent.box.scrollIntoView({ block: "center" });
		const block = agent.box.parentElement;
		block.classList.remove("flash");
		requestAnimationFrame(() => block.classList.add("flash"));
	}
	aim(agent && agent.status === "running" ? agent : null);
	redraw();
	if (!matchMedia("(pointer: coarse)").matches && !agent) (run?.questions.length ? $("questions").firstChild : $("text"))?.focus();
}
// aim sets the sub-agent that messages go to.
function aim(agent) {
	if (agent || target) note("", false);
	target = agent;
	if (agent) $("note").append(el("span", { class: "target" }, `Messages go to ${agent.slug}.`, el("button", { type: "button", text: "To the whole conversation", onclick: () => select(current) })));
}
const openSession = reported(async (session, slug) => {
	const known = runs.get(session);
	if (known && known.state !== "elsewhere") return select(known);
	if (known) known.clear();
	const run = known || new Run(slug, session);
	try {
		await run.load();
	} catch (error) {
		runs.delete(run.key);
		throw error;
	}
	current = null; // its view is new
	select(run);
});
const submit = reported(async () => {
	const text = $("text").value.trim();
	if (current?.live) {
		if (!text || !current.send({ kind: "input", ...(target ? { session: target.session } : {}), text })) return;
		current.view.append(el("div", { class: "message note pending", text: `To be read with the next request${target ? " of " + target.slug : ""}: ${text}` }));
	} else {
		const slug = current ? current.slug : chosen, args = readFields();
		if (!slug || (!$("text").hidden && !text)) return;
		if (text && !$("text").hidden) args.prompt = text;
		const run = current || new Run(slug);
		run.title ||= oneLine(text || argsBrief(JSON.stringify(args)), 200);
		run.connect({ args, ...(run.session ? { session: run.session } : {}) });
		$("text").value = "";
		if (!current) select(run);
		showFields();
	}
	$("text").value = "";
	grow();
	talk.scrollTop = talk.scrollHeight;
	draw();
});
function grow() {
	const t = $("text");
	t.style.height = "auto";
	t.style.height = t.scrollHeight + 2 + "px";
}
let framed = ""; // the address of the page that the frame shows
function showFrame(on) {
	$("frame").hidden = !on;
	talk.hidden = $("dock").hidden = on;
	if (!on && framed) { $("frame").src = "about:blank"; URL.revokeObjectURL(framed); framed = ""; }
	head();
}
const togglePage = reported(async () => {
	if (!$("frame").hidden) return showFrame(false);
	const run = current, html = await (await api(`v1/sessions/${run.session}?format=html`)).blob();
	if (current !== run) return;
	framed = URL.createObjectURL(html);
	$("frame").src = framed;
	showFrame(true);
});

let listing = 0;
function listSoon(ms = 300) { clearTimeout(listing); listing = setTimeout(list, ms); }
const list = reported(async () => {
	const query = $("query").value;
	const answer = await api("v1/sessions?words=" + encodeURIComponent(query)).catch((error) => { if (error.message.includes("404")) return null; throw error; });
	if (query !== $("query").value) return;
	stored = answer ? (await answer.json()).sessions : [];
	redraw();
});
async function follow() {
	for (const mine = token; mine === token && !app.hidden; await sleep(2000)) {
		try {
			const reader = (await api("v1/runs?follow=true")).body.pipeThrough(new TextDecoderStream()).getReader();
			for (let rest = "", lines; ;) {
				const { value, done } = await reader.read();
				if (done) break;
				lines = (rest + value).split("\n");
				rest = lines.pop();
				const line = lines.findLast(Boolean);
				if (!line) continue;
				const before = served.filter((r) => isLive(r.state)).length;
				served = JSON.parse(line).runs;
				if (before !== served.filter((r) => isLive(r.state)).length) listSoon();
				draw();
			}
		} catch { /* the server is away: it is asked again */ }
	}
}

// --- Sign-in, and the start -----------------------------------------------------------

function signedOut() {
	token = "";
	sessionStorage.removeItem("token");
	app.hidden = true;
	$("signin").hidden = false;
	$("token").focus();
}
async function start() {
	offered = (await (await api("v1/agents")).json()).agents;
	if (token) sessionStorage.setItem("token", token);
	$("signin").hidden = true;
	app.hidden = false;
	chosen = offered[0]?.name || "";
	served = (await (await api("v1/runs")).json()).runs;
	await list();
	follow();
	await route();
	if (!current) showList();
	document.documentElement.dataset.ready = "true";
}
async function route() {
	const id = location.hash.slice(1);
	const known = runs.get(id) || served.find((r) => r.session === id) || stored.find((s) => s.session === id);
	if (known instanceof Run) select(known);
	else if (known) await openSession(known.session, known.agent);
	else if (!id && narrow()) app.dataset.view = "list";
	else select(null);
}
const signIn = async (action) => {
	try {
		await action();
		await start();
	} catch (error) {
		signedOut();
		$("signin-note").textContent = error.message;
	}
};
$("signin").onsubmit = (e) => { e.preventDefault(); token = $("token").value.trim(); $("token").value = ""; signIn(() => {}); };
$("compose").onsubmit = (e) => { e.preventDefault(); submit(); };
$("text").oninput = grow;
$("text").onkeydown = (e) => { if (e.key === "Enter" && !e.shiftKey && !e.isComposing) { e.preventDefault(); $("compose").requestSubmit(); } };
$("query").oninput = () => listSoon(250);
$("new").onclick = () => select(null);
$("back").onclick = () => { app.dataset.view = "list"; history.pushState(null, "", "#"); };
$("stop").onclick = () => current.cancel();
$("page").onclick = togglePage;
$("theme").onclick = switchTheme;
$("help").onclick = () => $("keys").showModal();
addEventListener("popstate", () => route());

const showList = () => { if (narrow()) app.dataset.view = "list"; };
function move(by) {
	const all = [...document.querySelectorAll("#side .row > .open")], at = all.indexOf(document.activeElement);
	showList();
	all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)]?.focus();
}
addEventListener("keydown", (e) => {
	if (app.hidden || e.ctrlKey || e.metaKey || e.altKey || $("keys").open) return;
	const at = document.activeElement, typing = /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName) && at.type !== "radio";
	if (typing) {
		if (e.key === "Escape") at.blur();
		return;
	}
	const answer = document.querySelector(`#questions [data-key="${CSS.escape(e.key)}"]`);
	const row = at.closest?.(".row");
	const act = answer ? () => answer.click() : {
		n: () => select(null), "/": () => { showList(); $("query").focus(); }, m: () => $("text").focus(), "?": () => $("keys").showModal(),
		j: () => move(1), k: () => move(-1), ArrowDown: row && (() => move(1)), ArrowUp: row && (() => move(-1)), p: () => $("page").hidden || togglePage(),
		x: () => (row ? row.stop?.() : current?.live && current.cancel(target)), Escape: () => $("back").click(),
		o: () => { const all = [...talk.querySelectorAll("details.call")], open = all.some((d) => !d.open); for (const d of all) d.open = open; },
	}[e.key];
	if (!act) return;
	e.preventDefault();
	act();
});

const code = /^#link=(\w+)$/.exec(location.hash)?.[1];
if (code) history.replaceState(null, "", location.pathname); // it is used up
signIn(async () => { if (code) token = (await (await fetch("v1/signin", { method: "POST", body: code }).then(async (a) => (a.ok ? a : Promise.reject(new Error((await a.json()).error.message)))) ).json()).token; });
