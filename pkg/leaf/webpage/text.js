// What the pages share. Everything that they show was written by people, models and tools. It
// gets into a page as text alone: textContent, and attributes that hold no code.
const $ = (id) => document.getElementById(id);
const el = (tag, props, ...children) => {
	const e = document.createElement(tag);
	for (const [k, v] of Object.entries(props || {})) {
		if (k === "class") e.className = v;
		else if (k === "text") e.textContent = v;
		else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
		else e.setAttribute(k, v);
	}
	e.append(...children.filter((c) => c !== null && c !== undefined && c !== ""));
	return e;
};

// visible replaces characters that cannot be seen or that reorder a text by their codes.
const visible = (text) => text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\u{e0000}-\u{e0fff}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
const num = (n) => (n || 0).toLocaleString("en-US");
const brief = (n) => (n < 10000 ? num(n) : n < 1e6 ? (n / 1e3).toFixed(n < 1e5 ? 1 : 0) + "k" : (n / 1e6).toFixed(1) + "M");
// money has cents, and two digits of what is less than ten of them.
const money = (c) => "$" + c.toFixed(c > 0 && c < 0.1 ? Math.min(8, 1 - Math.floor(Math.log10(c))) : 2).replace(/(\.\d\d+?)0+$/, "$1");
const took = (ms) => {
	if (ms < 1000) return Math.round(ms) + " ms";
	const s = ms / 1000;
	if (s < 60) return s.toFixed(s < 10 ? 1 : 0) + " s";
	if (s < 3600) return Math.floor(s / 60) + " m " + String(Math.floor(s % 60)).padStart(2, "0") + " s";
	return Math.floor(s / 3600) + " h " + String(Math.floor((s / 60) % 60)).padStart(2, "0") + " m";
};
const time = (text) => Math.max(0, Date.parse(text) || 0); // 0: not known
const clock = (ms) => new Date(ms).toISOString().slice(0, 19).replace("T", " ") + " UTC";
// What is not known to cost something is not free: it is unpriced.
const cost = (u, unpriced = (u.requests || 0) - (u.priced || 0)) =>
	!u.requests ? "" : unpriced >= u.requests ? "unpriced" : money(u.cost || 0) + (unpriced ? ` + ${num(unpriced)} unpriced` : "");
const spent = (u) => (u ? `${num(u.input_tokens)} tokens in, ${num(u.output_tokens)} out` + (u.priced ? `, ${cost(u)}` : "") : "");
const oneLine = (s, n) => {
	const t = s.slice(0, n * 4).replace(/\s+/g, " ").trim();
	return t.length > n ? t.slice(0, n - 1) + "…" : t;
};
const textOf = (parts) => (parts || []).filter((p) => p.kind === "text").map((p) => p.text || "").join("");

// Markdown, as far as it helps to read: blocks of code, headings, lists,
// quotations, tables; code, bold and italic text and links in a line. A link
// leads to an address of the web or of mail. No pictures.
const url = /(?:https?:\/\/|mailto:)(?:[^\s()<>]|\([^\s()<>]*\))+/.source;
const spans = new RegExp("(" + [
	/`[^`\n]+`/.source, // code
	/\*\*\*[^*\n]+\*\*\*/.source, /\*\*(?:[^*\n]|\*(?!\*))+\*\*/.source, // bold
	/(?<![\w*])\*[^\s*](?:[^*\n]*[^\s*])?\*(?![\w*])/.source, /(?<!\w)_[^\s_](?:[^_\n]*[^\s_])?_(?!\w)/.source, // italic
	/(?<!!)\[[^\]\n]+\]/.source + "\\(" + url + "\\)", // link
	"<" + url + ">", /(?<!\]\()\bhttps?:\/\/[^\s<>()"'`\]*|]*[^\s<>()"'`\]*|.,;:!?_]/.source, // address
].join("|") + ")");
const link = (text, href) => el("a", { text, href, title: href, target: "_blank", rel: "noreferrer noopener nofollow" });
function inline(into, text) {
	text.split(spans).forEach((piece, i) => {
		if (i % 2 === 0) { if (piece) into.append(piece); return; }
		const inner = piece.slice(1, -1);
		if (piece[0] === "`") into.append(el("code", { text: inner }));
		else if (piece.startsWith("***")) into.append(el("b", null, inline(el("em"), piece.slice(3, -3))));
		else if (piece.startsWith("**")) into.append(inline(el("b"), piece.slice(2, -2)));
		else if (piece[0] === "*" || piece[0] === "_") into.append(inline(el("em"), inner));
		else if (piece[0] === "<") into.append(link(inner, inner));
		else if (piece[0] === "[") { const at = piece.indexOf("]("); into.append(link(piece.slice(1, at), piece.slice(at + 2, -1))); }
		else into.append(link(piece, piece));
	});
	return into;
}
// cells are those of a row of a table.
const cells = (line) => line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/).map((c) => c.trim().replaceAll("\\|", "|"));
function table(head, align, rows) {
	const row = (tag, list) => el("tr", null, ...head.map((_, i) => {
		const cell = inline(el(tag), list[i] || "");
		const [left, right] = [align[i].startsWith(":"), align[i].endsWith(":")];
		if (right) cell.style.textAlign = left ? "center" : "right";
		return cell;
	}));
	return el("div", { class: "table" }, el("table", null, el("thead", null, row("th", head)), el("tbody", null, ...rows.map((r) => row("td", r)))));
}
function markdown(text) {
	const root = el("div", { class: "md" });
	let para = [], list = null, fence = null, code = [];
	const flush = () => {
		if (para.length) root.append(inline(el("p"), para.join("\n")));
		para = []; list = null;
	};
	const lines = text.replace(/\r\n?/g, "\n").split("\n");
	for (let i = 0; i < lines.length; i++) {
		const line = lines[i];
		const mark = line.match(/^\s{0,3}(`{3,}|~{3,})(.*)$/);
		if (fence) {
			if (mark && mark[1][0] === fence[0] && mark[1].length >= fence.length && !mark[2].trim()) {
				root.append(el("pre", { text: code.join("\n"), tabindex: "0" }));
				fence = null; code = [];
			} else code.push(line);
			continue;
		}
		let m;
		if (mark) { flush(); fence = mark[1]; }
		else if (!line.trim()) flush();
		else if (line.includes("|") && /^\s*\|?(\s*:?-+:?\s*\|)*\s*:?-+:?\s*\|?\s*$/.test(lines[i + 1] || "") && cells(line).length === cells(lines[i + 1]).length) {
			flush();
			const head = cells(line), align = cells(lines[++i]), rows = [];
			while (i + 1 < lines.length && lines[i + 1].includes("|")) rows.push(cells(lines[++i]));
			root.append(table(head, align, rows));
		} else if ((m = line.match(/^#{1,6}\s+(.*)$/))) { flush(); root.append(inline(el("div", { class: "h" }), m[1])); }
		else if ((m = line.match(/^(\s*)([-*+]|\d{1,4}[.)])\s+(.*)$/))) {
			if (!list) { flush(); list = el("ul"); root.append(list); }
			const item = el("li", null, el("span", { class: "dot", text: /\d/.test(m[2]) ? m[2] : "•" }));
			item.style.marginLeft = Math.min(m[1].length, 12) * 6 + "px";
			list.append(inline(item, m[3]));
		} else if ((m = line.match(/^>\s?(.*)$/))) { flush(); root.append(inline(el("blockquote"), m[1])); }
		else if (list && /^\s{2,}/.test(line)) inline(list.lastChild, "\n" + line.trim());
		else { if (list) flush(); para.push(line); }
	}
	if (fence) root.append(el("pre", { text: code.join("\n"), tabindex: "0" }));
	flush();
	return root;
}
function json(text) {
	const pre = el("pre", { tabindex: "0" });
	let pretty;
	try { pretty = JSON.stringify(JSON.parse(text), null, 2); } catch { pretty = null; }
	text = visible(text);
	// A number that JavaScript would change is shown as it came.
	if (pretty === null || /\d{16}/.test(text)) { pre.textContent = text; return pre; }
	pretty = visible(pretty);
	if (pretty.length > 20000) { pre.textContent = pretty; return pre; }
	for (const piece of pretty.split(/("(?:[^"\\]|\\.)*"(?:\s*:)?|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/)) {
		if (!piece) continue;
		const kind = piece[0] === '"' ? (piece.endsWith(":") ? "k" : "s") : /^-?\d/.test(piece) ? "n" : "";
		pre.append(kind ? el("span", { class: kind, text: piece }) : piece);
	}
	return pre;
}
const pictures = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);
function part(p, plain) {
	if (p.kind === "media") {
		if (p.data && pictures.has(p.mime)) return el("img", { class: "media", src: `data:${p.mime};base64,${p.data}`, alt: p.name || p.mime });
		return el("p", { class: "facts", text: `Attached: ${p.name ? p.name + ", " : ""}${p.mime}, ${p.text || ""}` });
	}
	if (p.kind === "reasoning") return el("details", { class: "think" }, el("summary", { text: "Thinking" }), el("div", { class: "body" }, markdown(p.text || "")));
	return plain ? el("pre", { text: p.text || "", tabindex: "0" }) : markdown(p.text || "");
}

// argPairs are the arguments of a call as [name, text].
const argPairs = (args) => {
	try {
		const v = JSON.parse(args);
		if (v && typeof v === "object" && !Array.isArray(v)) return Object.entries(v).map(([k, x]) => [k, typeof x === "string" ? x : JSON.stringify(x)]);
	} catch { /* shown as it is */ }
	return [["", args]];
};
const argsBrief = (args) => argPairs(args).map(([k, x]) => (k ? k + "=" : "") + x).join("  ");
const firstArg = (args) => oneLine((argPairs(args)[0] || ["", ""])[1], 60);

// argsView are the arguments of a call: those that change a text as a difference, those of
// several lines as they are, and the others as JSON.
function argsView(args) {
	const rest = Object.create(null), nodes = [], label = (text) => el("div", { class: "label", text });
	const pairs = argPairs(args);
	if (pairs.length === 1 && !pairs[0][0]) return args ? [label("Arguments"), json(args)] : [];
	const values = JSON.parse(args), long = (v) => typeof v === "string" && (v.includes("\n") || isDiff(v));
	const [was, is] = [["old", "new"], ["old_string", "new_string"], ["old_text", "new_text"]].find(([a, b]) => typeof values[a] === "string" && typeof values[b] === "string") || [];
	for (const [k, v] of Object.entries(values)) {
		if (k === was) nodes.push(label("Change"), diff(difference(v, values[is])));
		else if (k !== is && long(v)) nodes.push(label(visible(k)), isDiff(v) ? diff(v) : el("pre", { text: visible(v), tabindex: "0" }));
		else if (k !== is) rest[k] = v;
	}
	// A number that JavaScript would change is shown as it came, with all the others.
	if (/\d{16}/.test(args)) return [label("Arguments"), json(args)];
	return [...(Object.keys(rest).length ? [label("Arguments"), json(JSON.stringify(rest))] : []), ...nodes];
}
const isDiff = (text) => /^@@ -\d/m.test(text) && /^[+-]/m.test(text);
function diff(text) {
	const pre = el("pre", { class: "diff", tabindex: "0" });
	for (const line of visible(text).split(/(?<=\n)/)) {
		const kind = { "+": "add", "-": "del", "@": "at" }[line[0]];
		pre.append(kind ? el("span", { class: kind, text: line }) : line);
	}
	return pre;
}
// difference are the lines of two texts without those at both ends that are equal.
function difference(was, is) {
	const a = was.split("\n"), b = is.split("\n");
	let start = 0, end = 0;
	while (start < a.length && start < b.length && a[start] === b[start]) start++;
	while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
	const marked = (mark, list) => list.map((line) => mark + line);
	return [...marked(" ", a.slice(0, start)), ...marked("-", a.slice(start, a.length - end)), ...marked("+", b.slice(start, b.length - end)), ...marked(" ", a.slice(a.length - end))].join("\n");
}
const resultPart = (p) => (p.kind === "text" && isDiff(p.text || "") ? diff(p.text) : part(p, true));

// What a call or a reasoning holds is built when it is opened first.
const fill = new WeakMap();
function opened(d) {
	const build = fill.get(d);
	if (build) { fill.delete(d); build(); }
}
document.addEventListener("toggle", (e) => { if (e.target.open) opened(e.target); }, true);

function message(kind, who, parts) {
	const m = el("div", { class: "message " + kind });
	if (who) m.append(el("div", { class: "who", text: who }));
	for (const p of parts) m.append(part(p));
	return m;
}
function switchTheme() {
	const root = document.documentElement, dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
	root.dataset.theme = dark ? "light" : "dark";
}
