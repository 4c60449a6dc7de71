"use strict";
// A click on a heading sorts its table: numbers largest first, then smallest first; texts by alphabet.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const heading = button.parentElement;
    const table = heading.closest("table");
    const place = [...heading.parentElement.children].indexOf(heading);
    const body = table.tBodies[0];
    const text = (row) => row.cells[place].textContent.replaceAll("−", "-").replaceAll(",", "");
    const number = (row) => parseFloat(text(row));
    const rows = [...body.rows];
    const numeric = rows.some((row) => !isNaN(number(row)));
    const descending = heading.ariaSort ? heading.ariaSort === "ascending" : numeric;
    for (const other of heading.parentElement.children) other.removeAttribute("aria-sort");
    heading.ariaSort = descending ? "descending" : "ascending";
    const sign = descending ? -1 : 1;
    rows.sort((a, b) => {
      if (!numeric) return sign * text(a).localeCompare(text(b));
      const known = isNaN(number(a)) - isNaN(number(b)); // unknown values stay last
      return known || sign * (number(a) - number(b));
    });
    body.append(...rows);
  });
}
