"use strict";
// A cursor for each chart: by pointer, or with the arrow keys once the chart has the focus.
// Without it everything is still there: a band says its values as a tooltip, and tables hold them.
for (const chart of document.querySelectorAll("svg.chart")) {
  const bands = [...chart.querySelectorAll(".hit")];
  const said = chart.parentElement.querySelector("output");
  const box = chart.viewBox.baseVal;
  let at = -1;
  if (!bands.length || !said) continue;
  const cursor = document.createElementNS("http://www.w3.org/2000/svg", "line");
  cursor.setAttribute("class", "cursor");
  cursor.setAttribute("y1", "0");
  cursor.setAttribute("y2", String(box.height));
  cursor.style.display = "none";
  chart.append(cursor);
  const show = (index) => {
    at = Math.max(0, Math.min(bands.length - 1, index));
    cursor.setAttribute("x1", bands[at].dataset.x);
    cursor.setAttribute("x2", bands[at].dataset.x);
    cursor.style.display = "";
    said.textContent = bands[at].querySelector("title").textContent;
  };
  const hide = () => {
    cursor.style.display = "none";
    said.textContent = "";
    at = -1;
  };
  chart.addEventListener("pointermove", (event) => {
    const index = bands.indexOf(event.target);
    if (index >= 0) show(index);
  });
  chart.addEventListener("pointerleave", () => {
    if (document.activeElement !== chart) hide();
  });
  chart.addEventListener("blur", hide);
  chart.addEventListener("keydown", (event) => {
    const steps = { ArrowRight: at + 1, ArrowLeft: at - 1, PageDown: at + 10, PageUp: at - 10, Home: 0, End: bands.length - 1 };
    if (event.key === "Escape") hide();
    if (!Object.hasOwn(steps, event.key)) return;
    show(steps[event.key]);
    event.preventDefault();
  });
}
