"use strict";
// Charts with values at the pointer or by keys, and buttons that copy.
{
  const make = (tag, text = "") => {
    const made = document.createElement(tag);
    made.textContent = text;
    return made;
  };
  const setAll = (element, attributes) => {
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  };

  // A chart: {size: [width, height], box: [left, top, right, bottom], at: [words], x: [places],
  // series: [{name, colour, y: [place or null], values: [words]}]}; all places are those of its picture.
  function makeReadable(chart) {
    const { size, box, at, x, series } = JSON.parse(chart.dataset.chart), picture = chart.querySelector("svg");
    const draw = (tag) => document.createElementNS(picture.namespaceURI, tag);
    const overlay = draw("svg"), guide = draw("line"), tip = make("div");
    const dots = series.map(({ colour }) => {
      const dot = draw("circle");
      setAll(dot, { r: 4, fill: colour });
      return dot;
    });
    setAll(overlay, { viewBox: `0 0 ${size[0]} ${size[1]}`, class: "overlay", "aria-hidden": "true" });
    setAll(guide, { y1: box[1], y2: box[3], stroke: "currentColor", "stroke-opacity": 0.45 });
    setAll(tip, { class: "tip", "aria-hidden": "true" });
    overlay.append(guide, ...dots);
    setAll(picture, { "aria-hidden": "true" });
    setAll(chart, {
      tabindex: 0, role: "slider", "aria-label": picture.getAttribute("aria-label"), "aria-valuemin": 1,
      "aria-valuemax": x.length, "aria-valuenow": 1, "aria-valuetext": "arrow keys read values",
    });
    chart.append(overlay, tip);
    let current = 0;

    function show(number) {
      current = Math.max(0, Math.min(x.length - 1, number));
      overlay.classList.add("shown");
      setAll(guide, { x1: x[current], x2: x[current] });
      const rows = [];
      series.forEach(({ name, colour, y, values }, i) => {
        const known = y[current] !== null;
        dots[i].style.display = known ? "" : "none";
        if (!known) return;
        setAll(dots[i], { cx: x[current], cy: y[current] });
        const row = make("div"), mark = make("span");
        setAll(mark, { class: "dot", style: `background: ${colour}` });
        row.append(mark, make("span", `${name} `), make("b", values[current]));
        rows.push(row);
      });
      tip.replaceChildren(make("div", at[current]), ...rows);
      tip.style.display = "block";
      const wide = chart.clientWidth, place = (x[current] / size[0]) * wide;
      tip.style.left = `${Math.max(0, Math.min(place + 12, wide - tip.offsetWidth))}px`;
      if (place + 12 > wide - tip.offsetWidth) tip.style.left = `${Math.max(0, place - tip.offsetWidth - 12)}px`;
      const read = series.filter(({ y }) => y[current] !== null).map(({ name, values }) => `${name} ${values[current]}`);
      setAll(chart, { "aria-valuenow": current + 1, "aria-valuetext": `${at[current]}: ${read.join(", ")}` });
    }

    function hide() {
      overlay.classList.remove("shown");
      tip.style.display = "none";
    }

    const steps = {
      ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1, PageUp: 10, PageDown: -10, Home: -x.length, End: x.length,
    };
    chart.addEventListener("pointermove", (event) => {
      const frame = picture.getBoundingClientRect(), place = ((event.clientX - frame.left) / frame.width) * size[0];
      show(x.reduce((best, one, i) => (Math.abs(one - place) < Math.abs(x[best] - place) ? i : best), 0));
    });
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("blur", hide);
    chart.addEventListener("focus", () => { if (chart.matches(":focus-visible")) show(current); });
    chart.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.key === "Escape") hide();
      if (!(event.key in steps)) return;
      event.preventDefault();
      show(current + steps[event.key]);
    });
  }

  async function copy(source, status) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      status.textContent = "Copied.";
    } catch {  // not allowed here: select it, so that the keys of the browser copy it
      getSelection().selectAllChildren(source);
      status.textContent = document.execCommand("copy") ? "Copied." : "Selected: copy it with Ctrl+C.";
    }
  }

  document.querySelectorAll("[data-chart]").forEach(makeReadable);
  document.querySelectorAll("[data-copy]").forEach((button) => {
    button.hidden = false;
    button.addEventListener("click", () => copy(document.getElementById(button.dataset.copy), button.nextElementSibling));
  });
}
