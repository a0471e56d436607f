// What of WCAG 2.2 AA can be read off a page; the names that Chromium computes are looked at in test_accessibility.py.
// Returns a sentence for each flaw.
(() => {
  const flaws = [], say = (rule, element, words = "") => flaws.push(`${rule}: ${element?.outerHTML?.slice(0, 90)} ${words}`);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const isShown = (element) => element.checkVisibility({ visibilityProperty: true }) && element.getClientRects().length > 0;

  // colours
  const parse = (text) => (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
  const over = ([r, g, b, a = 1], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a)];
  const light = (colour) => colour
    .map((part) => part / 255).map((part) => (part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4))
    .reduce((sum, part, i) => sum + part * [0.2126, 0.7152, 0.0722][i], 0);
  function behind(element) {
    const chain = [];
    for (let one = element; one; one = one.parentElement) chain.push(parse(getComputedStyle(one).backgroundColor));
    const canvas = matchMedia("(prefers-color-scheme: dark)").matches ? [18, 18, 18] : [255, 255, 255];
    return chain.reverse().reduce((below, layer) => over(layer, below), canvas);
  }
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("script, style, noscript, .unseen, option") || !isShown(element)) continue;
    const style = getComputedStyle(element), below = behind(element);
    const colour = over(parse(element.closest("svg") && style.fill !== "none" ? style.fill : style.color), below);
    const [high, low] = [light(colour), light(below)].sort((one, other) => other - one);
    const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const ratio = (high + 0.05) / (low + 0.05);
    if (ratio < (large ? 3 : 4.5)) say("contrast", element, `${ratio.toFixed(2)} ${style.color}`);
  }

  // structure
  if (!document.documentElement.lang) say("language", document.documentElement);
  if (!document.title.trim()) say("title", document.head);
  if (all("h1").length !== 1) say("one h1", document.body);
  if (all("main").length !== 1) say("one main", document.body);
  all("nav").filter((nav) => !nav.ariaLabel).forEach((nav) => say("name of a nav", nav));
  let before = 0;
  for (const heading of all("h1, h2, h3, h4, h5, h6")) {
    const level = Number(heading.tagName[1]);
    if (level > before + 1) say("heading order", heading);
    if (!heading.textContent.trim()) say("empty heading", heading);
    before = level;
  }
  for (const child of document.body.children) {
    if (!child.matches("main, nav, header, footer, aside, script")) say("outside landmarks", child);
  }
  const ids = all("[id]").map((element) => element.id);
  ids.filter((id, i) => ids.indexOf(id) !== i).forEach((id) => say("repeated id", document.getElementById(id)));
  for (const name of ["aria-describedby", "aria-labelledby", "aria-controls", "for"]) {
    for (const element of all(`[${name}]`)) {
      for (const id of element.getAttribute(name).split(/\s+/)) if (!document.getElementById(id)) say(name, element);
    }
  }
  all('a[href^="#"]').filter((link) => !document.getElementById(link.hash.slice(1))).forEach((link) => say("link", link));
  all("li").filter((item) => !item.parentElement.matches("ul, ol")).forEach((item) => say("li outside a list", item));
  all("ul, ol").forEach((list) => [...list.children].filter((one) => one.tagName !== "LI").forEach((one) => say("in a list", one)));
  all("dt, dd").filter((item) => !item.closest("dl")).forEach((item) => say("dt outside a dl", item));
  all("th").filter((cell) => !["row", "col"].includes(cell.scope)).forEach((cell) => say("scope", cell));
  all("svg:not([aria-hidden=true])").filter((svg) => !svg.ariaLabel || svg.role !== "img").forEach((svg) => say("picture", svg));
  all("img:not([alt])").forEach((image) => say("alt", image));

  // keys and pointers
  const focusable = 'a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex="-1"])';
  all("[tabindex]").filter((element) => element.tabIndex > 0).forEach((element) => say("positive tabindex", element));
  all(focusable).filter((element) => element.parentElement.closest("a, button, [role=slider], [role=img]"))
    .forEach((element) => say("nested control", element));
  for (const element of all("*").filter(isShown)) {
    const { overflowX, overflowY } = getComputedStyle(element);
    const scrolls = (overflowY !== "visible" && overflowY !== "hidden" && element.scrollHeight > element.clientHeight + 1)
      || (overflowX !== "visible" && overflowX !== "hidden" && element.scrollWidth > element.clientWidth + 1);
    if (scrolls && element !== document.documentElement && !element.matches(focusable) && !element.querySelector(focusable)) {
      say("scrolls, but not by keys", element);
    }
  }
  for (const element of all("button, select, input, .contents a, summary").filter(isShown)) {
    const { width, height } = element.getBoundingClientRect();
    if ((width < 24 || height < 24) && !element.closest("li:not(.contents li)")) say("target size", element, `${width} x ${height}`);
  }
  all("[role=slider]").filter((one) => !["aria-valuenow", "aria-valuemin", "aria-valuemax"].every((name) => one.hasAttribute(name)))
    .forEach((one) => say("slider", one));
  if (document.documentElement.scrollWidth > innerWidth) {
    say("wider than the window", document.documentElement, `${document.documentElement.scrollWidth}`);
  }
  return flaws;
})()
