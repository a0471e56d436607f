"""The look of the page: light, dark, narrow and printed."""

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfbfa; --card: #ffffff; --ink: #1d2025; --muted: #5b616b; --rule: #dfe2e6;
  --accent: #0f766e; --other: #b45309; --note: #fdf5e6; --note-edge: #d39b3a;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14161a; --card: #1b1e23; --ink: #e7e9ec; --muted: #a2a9b4; --rule: #343941;
    --accent: #4fd1c0; --other: #f0a94b; --note: #2a2419; --note-edge: #b98a3a;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 1rem/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif;
}
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
.over { margin: 0; color: var(--muted); font-size: .85rem; letter-spacing: .04em; }
h1 { margin: .1rem 0 .6rem; font-size: 2rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.6rem 0 .8rem; font-size: 1.2rem; }
.lead { margin: 0; max-width: 46rem; font-size: 1.2rem; }
.lead strong { color: var(--accent); }
.note {
  margin: 1.4rem 0 0; padding: .7rem 1rem;
  background: var(--note); border-left: 4px solid var(--note-edge); border-radius: 4px;
}
.note h2 { margin: 0 0 .2rem; font-size: 1rem; }
.note ul, .small ul { margin: 0; padding-left: 1.1rem; }
.small { color: var(--muted); font-size: .88rem; max-width: 52rem; }
.small ul { margin-top: .8rem; }
.small li { margin: .25rem 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; color: var(--muted); font-size: .88rem; padding-bottom: .5rem; }
th, td { padding: .5rem .75rem; border-bottom: 1px solid var(--rule); text-align: right; vertical-align: baseline; }
th:first-child { text-align: left; padding-left: 0; }
thead th { font-weight: 600; color: var(--muted); font-size: .88rem; }
tbody th { font-weight: 400; }
tr.own th, tr.own td { font-weight: 650; }
tr.own td.key { color: var(--accent); }
.std { color: var(--muted); font-weight: 400; font-size: .85em; white-space: nowrap; }
.facts td { text-align: left; overflow-wrap: anywhere; }
.figures > .wide { align-self: start; }
.figures + .wide { margin-top: 1.6rem; }
.facts th { width: 45%; color: var(--muted); }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(26rem, 100%), 1fr)); gap: 1.25rem; }
figure {
  margin: 0; padding: 1rem 1rem .8rem;
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
}
figure svg { display: block; width: 100%; max-width: 34rem; height: auto; margin: 0 auto; }
figcaption { margin-top: .6rem; color: var(--muted); font-size: .88rem; }
figcaption b { color: var(--ink); }
details { border-bottom: 1px solid var(--rule); }
summary { cursor: pointer; padding: .5rem 0; }
footer { margin-top: 3rem; color: var(--muted); font-size: .8rem; overflow-wrap: anywhere; }
@media (max-width: 36rem) {
  main { padding: 1.5rem 1rem 3rem; }
  h1 { font-size: 1.6rem; }
  .lead { font-size: 1.08rem; }
  th, td { padding: .45rem .3rem; }
  .std { display: block; }
  figure { padding: .7rem .6rem .6rem; }
}
@media print {
  :root {
    color-scheme: light; --page: #fff; --card: #fff; --ink: #000; --muted: #444; --rule: #ccc;
    --accent: #0f766e; --other: #b45309; --note: #fff;
  }
  main { max-width: none; padding: 0; }
  figure, tr, .note { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""
