for (const box of document.querySelectorAll(".filtered")) {
  const ask = box.querySelector("p"), fields = [...ask.querySelectorAll("[data-column]")];
  const lists = [...box.querySelectorAll("tbody, ul")].map(list => [list, list.children.length]);
  const items = lists.flatMap(([list]) => [...list.children]);
  const fact = (item, { dataset }) => (item.cells ?? item.querySelector("p").children)[dataset.column].textContent;
  const fits = (text, { value, tagName }) =>
    tagName === "INPUT" ? text.toLowerCase().startsWith(value.trim().toLowerCase()) : !value || text === value;
  const show = () => {
    const sort = fields.find(field => "sort" in field.dataset), sign = Number(sort?.value);
    const wanted = items.filter(item => fields.every(field => field === sort || fits(fact(item, field), field)));
    for (const item of items) item.hidden = !wanted.includes(item);
    if (sign) wanted.sort((one, other) => sign * (parseFloat(fact(one, sort)) - parseFloat(fact(other, sort))));
    // Each list keeps its length, so that the first ones are seen while others are folded.
    let rest = [...wanted, ...items.filter(item => item.hidden)];
    for (const [list, length] of lists) list.append(...rest.splice(0, length));
    ask.querySelector("output").textContent = wanted.length < items.length ? `${wanted.length} of ${items.length}` : "";
  };
  ask.addEventListener("input", show);
  ask.hidden = false;
}
