// The search of the site: sections in which every word occurs. The index is loaded with the first key.
const field = document.getElementById("search");
const list = document.getElementById("found");
let isLoading = false;

function score([title, heading, , words], query) {
  const texts = [heading, title, words].map(text => ` ${text.toLowerCase()}`);
  const points = query.map(word =>
    (texts[0].includes(word) ? 20 : 0) + (texts[1].includes(word) ? 5 : 0) + (texts[2].includes(` ${word}`) ? 1 : 0));
  return points.includes(0) ? 0 : points.reduce((sum, one) => sum + one, 0);
}

function search() {
  const query = field.value.toLowerCase().split(/[\s`]+/).filter(word => word.length > 1);
  list.hidden = query.length === 0;
  document.querySelector("article").hidden = !list.hidden;
  const found = (globalThis.searchIndex ?? []).map(entry => [score(entry, query), entry]).filter(([points]) => points > 0);
  found.sort(([one], [two]) => two - one);
  list.replaceChildren(...found.slice(0, 30).map(([, [title, heading, address]]) => {
    const item = document.createElement("li");
    const link = item.appendChild(document.createElement("a"));
    link.href = address;
    link.textContent = heading === title ? title : `${title}: ${heading}`;
    // A link within the page shows it again.
    link.onclick = () => { field.value = ""; search(); };
    return item;
  }));
}

field.oninput = () => {
  if (!isLoading) {
    isLoading = true;
    const script = document.head.appendChild(document.createElement("script"));
    script.src = "search-index.js";
    script.onload = search;
  }
  search();
};
