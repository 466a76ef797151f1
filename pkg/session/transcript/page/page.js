// Everything in data was written by people, models and tools. It gets into the
// page as text alone: textContent, and attributes that hold no code.
const data = JSON.parse(document.getElementById("data").textContent);

// The head of the page.
function head() {
	const h = data.head;
	document.title = "Session " + h.id;
	const ok = h.outcome === "ok";
	$("kicker").append(el("span", { class: "pill " + (ok ? "ok" : h.outcome ? "bad" : ""), text: h.outcome || "not ended" }),
		el("span", { text: h.agent }), h.model ? el("span", { text: h.model }) : "", el("span", { class: "id", text: h.id }),
		el("span", { text: clock(Date.parse(h.began)) }));
	$("title").textContent = oneLine(h.prompt || "Session " + h.id, 300);
	const u = h.usage;
	const tile = (name, value, small) => $("tiles").append(el("div", { class: "tile" }, el("dt", { text: name }), el("dd", { text: value }, small ? el("small", { text: " " + small }) : "")));
	tile("Turns", num(h.turns));
	tile("Tool calls", num(h.calls), h.failed ? `${num(h.failed)} failed` : "");
	tile("Sub-agents", num(h.sub_agents), h.sub_agents ? (h.sub_agents === 1 ? "session" : "sessions") : "");
	tile("Tokens in", brief(u.input_tokens), u.cached_tokens ? `${brief(u.cached_tokens)} cached` : "");
	tile("Tokens out", brief(u.output_tokens), u.reasoning_tokens ? `${brief(u.reasoning_tokens)} thinking` : "");
	tile("Cost", u.priced ? money(u.cost || 0) : u.requests ? "unpriced" : "–", u.priced && u.priced < u.requests ? `+ ${num(u.requests - u.priced)} unpriced` : "");
	tile("Duration", took(Math.max(0, Date.parse(h.last) - Date.parse(h.began))));
	for (const text of [h.error, data.damage]) if (text) $("notices").append(el("p", { class: "notice", text }));
}

// What each agent consumed in all its sessions, and the whole tree.
function agents() {
	const list = data.agents || [];
	if (list.length < 3) return; // one agent, and the tiles have its figures
	const rows = list.map((a, i) => [i === list.length - 1 ? "**All agents**" : "", num(a.sessions), num(a.requests), num(a.calls), brief(a.input_tokens), brief(a.cached_tokens), brief(a.output_tokens), took(a.millis), cost(a, a.unpriced) || "–"]);
	const shown = table(["Agent", "Sessions", "Requests", "Calls", "Tokens in", "Cached", "Tokens out", "Time", "Cost"], [":--", "--:", "--:", "--:", "--:", "--:", "--:", "--:", "--:"], rows);
	shown.querySelectorAll("tbody tr").forEach((tr, i) => { if (i < list.length - 1) tr.firstChild.textContent = list[i].agent; });
	$("agents").append(el("div", { class: "md" }, shown));
	$("agents").hidden = false;
}

// The conversation. What a call holds is built when it is opened first.
const bars = [];   // {kind, at, end, lane, label, tip, target, turn}
const lanes = [];  // sessions, in the order of the tree
const searchable = []; // {node, text, open}
function conversation(into, turns, lane, path) {
	for (const t of turns) into.append(turn(t, lane, path));
}
function turn(t, lane, path) {
	const box = el("article", { class: "turn" });
	const note = (text, bad) => box.append(el("div", { class: "message " + (bad ? "error" : "note"), text }));
	if (t.compaction) {
		const c = t.compaction, at = time(c.time);
		note("Context shortened: " + (c.text || ""));
		if (c.usage) { lane.tokens += (c.usage.input_tokens || 0) + (c.usage.output_tokens || 0); lane.cost += c.usage.cost || 0; }
		if (c.millis) bar("model", lane, at - c.millis, at, "summary", `Summary of the context\n${took(c.millis)}\n${spent(c.usage)}`, box);
	}
	if (t.setup && t.setup.system) {
		const tools = (t.setup.specs || []).map((s) => s.name);
		const d = el("details", { class: "think" }, el("summary", null, el("span", { class: "brief", text: "System prompt" + (tools.length ? ` and ${num(tools.length)} ${tools.length === 1 ? "tool" : "tools"}` : "") })));
		fill.set(d, () => d.append(el("div", { class: "body" }, el("pre", { text: t.setup.system, tabindex: "0" }), tools.length ? el("p", { class: "facts", text: "Tools: " + tools.join(", ") }) : "")));
		box.append(d);
		searchable.push({ node: d, text: t.setup.system, up: path });
	}
	for (const m of t.prompts || []) {
		const by = m.role === "user" ? "User" : "Model", node = message(by.toLowerCase(), by, m.parts || []);
		box.append(node);
		searchable.push({ node, text: (m.parts || []).map((p) => p.text || p.name || "").join("\n"), up: path });
	}
	if (t.answer) answer(box, t, lane, path);
	for (const c of t.calls || []) call(box, c, t, lane, path);
	if (t.receipt) note(t.receipt);
	if (t.end && t.end.status !== "ok") note(`Run ended: ${t.end.status}${t.end.error ? "\n" + t.end.error : ""}`, true);
	return box;
}
function answer(box, t, lane, path) {
	const a = t.answer, u = a.usage || {}, ms = a.millis || 0, at = time(a.time), parts = (a.message || {}).parts || [];
	const facts = [took(ms), `${num(u.input_tokens)} in`, `${num(u.output_tokens)} out`, u.priced ? cost(u) : "", a.model || ""].filter(Boolean).join(" · ");
	const title = el(path.length ? "h4" : "h3", { text: "Turn " + t.n });
	const top = el("div", { class: "turn-head" }, title, el("span", { text: facts }));
	box.append(top);
	const shown = parts.filter((p) => p.kind === "media" || (p.text || "").trim());
	let node = top;
	if (shown.length) {
		node = message("model", "", shown);
		box.append(node);
		searchable.push({ node, text: shown.map((p) => p.text || p.name || "").join("\n"), up: path });
	}
	if (a.finish && a.finish !== "stop") box.append(el("div", { class: "message note", text: "The answer broke off: " + a.finish }));
	bar("model", lane, at - ms, at, `turn ${t.n}`, `Model request, turn ${t.n}\n${lane.agent}${a.model ? ", " + a.model : ""}\n${took(ms)}\n${spent(u)}`, node, path, oneLine(textOf(parts), 120));
	lane.requests++; lane.tokens += (u.input_tokens || 0) + (u.output_tokens || 0); lane.cost += u.cost || 0;
}
function call(box, c, t, lane, path) {
	const nested = c.nested || [], ended = !!c.result, parts = (c.result || {}).parts || [], failed = ended && !!c.result.failed, ms = c.millis || 0;
	const kind = nested.length ? "agent" : "tool";
	const state = failed ? "failed" : ended ? "" : "no result";
	const d = el("details", { class: `call k-${kind}${failed ? " failed" : ""}` },
		el("summary", null, el("span", { class: "dot", "aria-hidden": "true" }), el("span", { class: "name", text: c.name }),
			el("span", { class: "brief", text: oneLine(argsBrief(c.args || ""), 160) }), el("span", { class: "took", text: [state, c.started ? took(ms) : state ? "" : "not run"].filter(Boolean).join(" · ") })));
	box.append(d);
	searchable.push({ node: d, text: [c.name, c.args, ...parts.map((p) => p.text || p.name || "")].join("\n"), up: path });
	const at = time(c.started) || (t.answer ? time(t.answer.time) : 0);
	bar(kind, lane, at, at + ms, `${c.name} ${firstArg(c.args || "")}`.trim(), `${kind === "agent" ? "Sub-agent" : "Tool call"} ${c.name}\n${lane.agent}, turn ${t.n}\n${took(ms)}${state ? ", " + state : ""}`, d, path, oneLine(c.args || "", 120), { failed, open: !ended });
	lane.calls++;
	const body = el("div", { class: "body" });
	const inner = nested.map((s) => {
		const below = { id: s.id, agent: s.agent, model: s.model || "", depth: lane.depth + 1, bars: [], requests: 0, calls: 0, tokens: 0, cost: 0 };
		lanes.push(below);
		const block = el("div", { class: "nested" }, el("div", { class: "nested-head", text: s.agent + " " }, el("small", { text: s.model || "" })));
		conversation(block, s.turns || [], below, [...path, d]);
		return block;
	});
	fill.set(d, () => {
		if (c.runs > 1) body.append(el("p", { class: "facts", text: `Run ${c.runs} times: its process ended in between.` }));
		if (c.argv) body.append(el("div", { class: "label", text: "Command" }), el("pre", { text: c.argv.join(" "), tabindex: "0" }));
		body.append(...argsView(c.args || ""));
		body.append(...inner);
		if (ended) body.append(el("div", { class: "label", text: failed ? "Result (failed)" : "Result" }), ...parts.map(resultPart));
		if (c.receipt) body.append(el("div", { class: "label", text: "Receipt" }), el("pre", { text: c.receipt, tabindex: "0" }));
		d.append(body);
	});
}

// The timeline.
function bar(kind, lane, at, end, label, tip, target, path, more, c) {
	const b = { kind, lane, at, end: Math.max(at, end), label, tip, more, target, path: path || [], failed: !!(c && c.failed), open: !!(c && c.open) };
	lane.bars.push(b);
	bars.push(b);
}
// scale leaves out most of the time in which nothing happened.
function scale() {
	const spans = bars.filter((b) => b.at > 0).map((b) => [b.at, b.end]).sort((a, b) => a[0] - b[0]);
	const merged = [];
	for (const s of spans) {
		const last = merged[merged.length - 1];
		if (last && s[0] <= last[1]) last[1] = Math.max(last[1], s[1]);
		else merged.push([...s]);
	}
	const busy = merged.reduce((sum, s) => sum + s[1] - s[0], 0);
	const cap = Math.max(busy * 0.04, 20);
	let x = 0;
	const knots = [], gaps = [];
	merged.forEach((s, i) => {
		if (i > 0) {
			const idle = s[0] - merged[i - 1][1];
			if (idle > cap) gaps.push({ x: x + cap / 2, idle });
			x += Math.min(idle, cap);
		}
		knots.push([s[0], x]);
		x += s[1] - s[0];
		knots.push([s[1], x]);
	});
	const total = Math.max(x, 1);
	const place = (ms) => {
		let lo = 0, hi = knots.length - 1;
		while (hi - lo > 1) { const mid = (lo + hi) >> 1; if (knots[mid][0] <= ms) lo = mid; else hi = mid; }
		if (!knots.length) return 0;
		const [t0, x0] = knots[lo], [t1, x1] = knots[Math.max(hi, lo)];
		return (t1 > t0 ? x0 + (x1 - x0) * Math.min(1, Math.max(0, (ms - t0) / (t1 - t0))) : x0) / total;
	};
	return { place, total, gaps, gapCap: cap };
}
function timeline() {
	const time = $("time");
	if (!bars.length) { time.append(el("p", { class: "empty", text: "There are no model requests in this session." })); return; }
	const { place, total, gaps } = scale();
	const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 15000, 30000, 60000, 120000, 300000, 600000, 1800000, 3600000, 7200000, 21600000, 86400000].find((s) => total / s <= 8) || total / 6;
	const axis = el("div", { class: "axis", "aria-hidden": "true" });
	const ticks = [];
	for (let ms = 0; ms < total * 0.97; ms += step) {
		ticks.push(ms / total);
		const s = el("span", { text: ms === 0 ? "0" : took(ms) });
		s.style.left = (ms / total) * 100 + "%";
		axis.append(s);
	}
	for (const g of gaps) {
		const s = el("span", { class: "gap", text: "⋯", title: "idle for " + took(g.idle) });
		s.style.left = (g.x / total) * 100 + "%";
		axis.append(s);
	}
	time.append(axis);
	for (const lane of lanes) time.append(laneRow(lane, place, ticks));
}
function laneRow(lane, place, ticks) {
	const facts = [lane.calls ? `${num(lane.calls)} ${lane.calls === 1 ? "call" : "calls"}` : "", lane.tokens ? `${brief(lane.tokens)} tokens` : "", lane.cost ? money(lane.cost) : ""].filter(Boolean).join(" · ");
	const label = el("div", { class: "lane-label", title: lane.agent + (lane.model ? ", " + lane.model : "") }, el("b", { text: lane.agent || "agent" }), el("small", { text: facts }));
	label.style.setProperty("--depth", Math.min(lane.depth, 5));
	const track = el("div", { class: "lane-track" });
	for (const x of ticks) { const t = el("i", { class: "tick" }); t.style.left = x * 100 + "%"; track.append(t); }
	const rows = [];
	for (const b of [...lane.bars].sort((a, c) => a.at - c.at || a.end - c.end)) {
		const x0 = place(b.at), x1 = place(b.end);
		// A bar is at least a few pixels wide: leave it that room.
		const right = Math.max(x1, x0 + 0.006);
		let row = rows.findIndex((end) => end <= x0 + 1e-9);
		if (row < 0) { row = rows.length; rows.push(0); }
		rows[row] = right;
		const name = b.tip.replace(/\n/g, ", ");
		b.node = el("button", { class: `bar k-${b.kind}${b.failed ? " failed" : ""}${b.open ? " open" : ""}`, type: "button", tabindex: "-1", "aria-label": name, "data-depth": lane.depth, "data-agent": lane.agent }, b.label);
		b.node.style.left = x0 * 100 + "%";
		b.node.style.width = (x1 - x0) * 100 + "%";
		b.node.style.top = 6 + row * 21 + "px";
		b.node.bar = b;
		track.append(b.node);
	}
	track.style.minHeight = Math.max(44, 10 + rows.length * 21) + "px";
	return el("div", { class: "lane", role: "group", "aria-label": `${lane.agent}, level ${lane.depth + 1}` }, label, track);
}
let zoom = 1;
function setZoom(z, mid) {
	const scroll = $("scroll"), time = $("time");
	const at = (scroll.scrollLeft + (mid ?? scroll.clientWidth / 2)) / time.clientWidth;
	zoom = Math.min(400, Math.max(1, z));
	time.style.width = zoom * 100 + "%";
	scroll.scrollLeft = at * time.clientWidth - (mid ?? scroll.clientWidth / 2);
	fit();
}
// fit leaves out what is written on bars that have no room for it.
function fit() {
	const widths = bars.map((b) => (b.node ? b.node.clientWidth : 0));
	bars.forEach((b, i) => {
		if (!b.node) return;
		b.node.classList.toggle("tight", widths[i] < 26);
		b.node.textContent = widths[i] < 26 ? "" : b.label;
	});
}
const tip = el("div", { class: "tip", hidden: "", role: "presentation" });
document.body.append(tip);
function showTip(b, x, y) {
	tip.textContent = b.tip + (b.more ? "\n" + b.more : "");
	tip.hidden = false;
	const r = tip.getBoundingClientRect();
	tip.style.left = Math.max(8, Math.min(x + 12, innerWidth - r.width - 8)) + "px";
	tip.style.top = (y + 18 + r.height > innerHeight ? y - r.height - 12 : y + 18) + "px";
}
let current = null;
function select(b, quiet) {
	if (current && current.node) { current.node.removeAttribute("aria-current"); current.node.tabIndex = -1; }
	current = b;
	b.node.setAttribute("aria-current", "true");
	b.node.tabIndex = 0;
	const d = $("detail");
	d.replaceChildren();
	const [first, ...rest] = b.tip.split("\n");
	d.append(el("div", null, el("b", { text: first }), el("div", { class: "what", text: [...rest, b.at ? clock(b.at) : "", b.more || ""].filter(Boolean).join(" · ") })),
		el("button", { class: "btn", type: "button", text: "Show", onclick: () => reveal(b) }));
	if (!quiet) b.node.scrollIntoView({ block: "nearest", inline: "nearest" });
}
function reveal(b) {
	for (const d of b.path) { opened(d); d.open = true; }
	if (b.target.tagName === "DETAILS") { opened(b.target); b.target.open = true; }
	b.target.scrollIntoView({ block: "center" });
	b.target.classList.remove("flash");
	requestAnimationFrame(() => b.target.classList.add("flash"));
}
function wire() {
	const time = $("time");
	time.addEventListener("pointermove", (e) => { const b = e.target.bar; if (b && e.pointerType === "mouse") showTip(b, e.clientX, e.clientY); else tip.hidden = true; });
	time.addEventListener("pointerleave", () => { tip.hidden = true; });
	time.addEventListener("click", (e) => { const b = e.target.bar; if (!b) return; if (current === b) reveal(b); else select(b, true); });
	time.addEventListener("keydown", (e) => {
		const b = e.target.bar;
		if (!b) return;
		const i = order.indexOf(b), own = b.lane.bars, all = lanes.filter((l) => l.bars.length);
		let next = null;
		if (e.key === "ArrowRight") next = order[i + 1];
		else if (e.key === "ArrowLeft") next = order[i - 1];
		else if (e.key === "Home") next = own[0];
		else if (e.key === "End") next = own[own.length - 1];
		else if (e.key === "ArrowDown") next = (all[all.indexOf(b.lane) + 1] || { bars: [] }).bars[0];
		else if (e.key === "ArrowUp") next = (all[all.indexOf(b.lane) - 1] || { bars: [] }).bars[0];
		else if (e.key === "Enter") { e.preventDefault(); select(b); reveal(b); return; }
		else return;
		e.preventDefault();
		if (next) { select(next); next.node.focus({ preventScroll: true }); }
	});
	$("in").addEventListener("click", () => setZoom(zoom * 1.6));
	$("out").addEventListener("click", () => setZoom(zoom / 1.6));
	$("scroll").addEventListener("wheel", (e) => {
		if (!e.ctrlKey && !e.metaKey) return;
		e.preventDefault();
		setZoom(zoom * Math.exp(-e.deltaY / 300), e.clientX - $("scroll").getBoundingClientRect().left);
	}, { passive: false });
	addEventListener("resize", fit);
	$("open-all").addEventListener("click", () => all(true));
	$("close-all").addEventListener("click", () => all(false));
	addEventListener("beforeprint", () => all(true));
	$("theme").addEventListener("click", switchTheme);
	let timer;
	$("query").addEventListener("input", (e) => { clearTimeout(timer); timer = setTimeout(() => search(e.target.value), 120); });
	$("query").addEventListener("keydown", (e) => {
		if (e.key === "Enter") { e.preventDefault(); step(e.shiftKey ? -1 : 1); }
		if (e.key === "Escape") { e.target.value = ""; search(""); }
	});
	addEventListener("keydown", (e) => { if (e.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) { e.preventDefault(); $("query").focus(); } });
}
function all(open) {
	for (let more = true; more;) {
		more = false;
		for (const d of document.querySelectorAll(open ? "#talk details:not([open])" : "#talk details[open]")) { if (open) opened(d); d.open = open; more = open; }
	}
}

// The search shows where the words are and leads from one to the next.
let hits = [], hit = -1;
function search(query) {
	const words = query.toLowerCase().split(/\s+/).filter(Boolean);
	hits = []; hit = -1;
	const nodes = new Set();
	for (const s of searchable) {
		s.low ??= s.text.toLowerCase();
		if (words.length && words.every((w) => s.low.includes(w))) { hits.push(s); nodes.add(s.node); }
	}
	for (const b of bars) if (b.node) b.node.classList.toggle("dim", words.length > 0 && !nodes.has(b.target));
	$("found").textContent = !words.length ? "" : hits.length ? `${num(hits.length)} found, Enter: next` : "nothing found";
	highlight(words);
}
function step(by) {
	if (!hits.length) return;
	hit = (hit + by + hits.length) % hits.length;
	const s = hits[hit];
	reveal({ path: s.up || [], target: s.node });
	$("found").textContent = `${num(hit + 1)} of ${num(hits.length)}`;
	highlight($("query").value.toLowerCase().split(/\s+/).filter(Boolean));
}
function highlight(words) {
	if (!window.CSS || !CSS.highlights) return;
	CSS.highlights.delete("found");
	if (!words.length) return;
	const ranges = [];
	for (const s of hits.slice(0, 500)) {
		const walk = document.createTreeWalker(s.node, NodeFilter.SHOW_TEXT);
		for (let n; (n = walk.nextNode()) && ranges.length < 5000;) {
			const low = n.data.toLowerCase();
			if (low.length !== n.data.length) continue;
			for (const w of words) for (let i = low.indexOf(w); i >= 0 && ranges.length < 5000; i = low.indexOf(w, i + w.length)) {
				const r = new Range();
				r.setStart(n, i); r.setEnd(n, i + w.length);
				ranges.push(r);
			}
		}
	}
	CSS.highlights.set("found", new Highlight(...ranges));
}

head();
const root = { id: data.head.id, agent: data.head.agent, model: data.head.model || "", depth: 0, bars: [], requests: 0, calls: 0, tokens: 0, cost: 0 };
lanes.push(root);
conversation($("talk"), data.turns, root, []);
if (!data.turns.length) $("talk").append(el("p", { class: "empty", text: "This session is empty." }));
agents();
timeline();
fit();
const order = bars.filter((b) => b.node).sort((a, b) => a.at - b.at);
wire();
if (order.length) select(order[0], true);
if (location.hash === "#open") all(true);
document.documentElement.dataset.ready = "true";
