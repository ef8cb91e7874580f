for (const box of document.querySelectorAll(".filtered")) {
  const ask = box.querySelector("p"), rows = [...box.querySelectorAll("tbody tr")];
  const input = ask.querySelector("input"), output = ask.querySelector("output");
  const show = () => {
    const wanted = input.value.trim().toLowerCase();
    for (const row of rows) row.hidden = !row.cells[0].textContent.toLowerCase().startsWith(wanted);
    const shown = rows.filter(row => !row.hidden).length;
    output.textContent = wanted ? `${shown} of ${rows.length} rows` : "";
  };
  input.addEventListener("input", show);
  ask.hidden = false;
  show();
}
