// The search of the manual. The index is loaded when somebody begins to search.
const root = document.currentScript.src.replace(/search\.js$/, "")
const box = document.getElementById("search")
const list = document.getElementById("found")
let loading

function load() {
	return loading ??= new Promise((resolve, reject) => {
		const script = document.createElement("script")
		script.src = root + "search-index.js"
		script.onload = resolve
		script.onerror = reject
		document.head.append(script)
	})
}

// score is higher for a better hit, and 0 if a word is missing.
function score(part, words) {
	const page = part.page.toLowerCase(), title = part.title.toLowerCase(), text = part.text.toLowerCase()
	let sum = 0
	for (const word of words) {
		const s = (title.includes(word) ? 20 : 0) + (page.includes(word) ? 8 : 0) + Math.min(text.split(word).length - 1, 5)
		if (s === 0) return 0
		sum += s
	}
	return sum
}

function excerpt(text, words) {
	const at = Math.max(0, ...words.map(w => text.toLowerCase().indexOf(w)))
	const from = Math.max(0, at - 40)
	return (from > 0 ? "…" : "") + text.slice(from, from + 140)
}

async function search() {
	const words = box.value.toLowerCase().split(/\s+/).filter(w => w !== "")
	await load()
	const hits = words.length === 0 ? [] : parts.map(p => [score(p, words), p]).filter(([s]) => s > 0).sort((a, b) => b[0] - a[0]).slice(0, 12)
	list.replaceChildren(...hits.map(([, p]) => {
		const link = document.createElement("a"), title = document.createElement("b"), text = document.createElement("span")
		link.href = root + p.to
		title.textContent = p.title === "" ? p.page : p.page + " › " + p.title
		text.textContent = excerpt(p.text, words)
		link.append(title, text)
		const row = document.createElement("li")
		row.append(link)
		return row
	}))
	if (hits.length === 0 && words.length > 0) list.append(Object.assign(document.createElement("li"), {textContent: "Nothing found."}))
	list.hidden = words.length === 0
}

box.addEventListener("focus", load)
box.addEventListener("input", search)
document.addEventListener("keydown", e => {
	const links = [box, ...list.querySelectorAll("a")], at = links.indexOf(document.activeElement)
	if (e.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement.tagName)) box.focus()
	else if (e.key === "Escape" && at >= 0) { box.value = ""; box.focus(); search() }
	else if (e.key === "ArrowDown" && at >= 0 && at + 1 < links.length) links[at + 1].focus()
	else if (e.key === "ArrowUp" && at > 0) links[at - 1].focus()
	else if (e.key === "Enter" && at === 0 && links.length > 1) links[1].click()
	else return
	e.preventDefault()
})
box.hidden = false
