'use strict';
// Redraws status.json periodically. All its content is inserted as text, never as markup.

const kWidth = 560, kHeight = 220, kLeft = 52, kRight = 12, kTop = 10, kBottom = 24;

const $ = (id) => document.getElementById(id);

function element(tag, text, className) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

function shape(tag, attributes, text) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  if (text !== undefined) e.textContent = text;
  return e;
}

function shown(value) {
  if (value === null) return 'not finite';
  if (value === 0) return '0';
  const digits = Math.max(0, 3 - Math.ceil(Math.log10(Math.abs(value))));
  return digits > 8 ? value.toExponential(1) : String(Number(value.toFixed(digits)));
}

// Four or five round numbers from `low` to `high`.
function ticks(low, high) {
  const rough = (high - low) / 4 || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= rough * 0.7);
  const all = [];
  for (let i = Math.ceil(low / step - 1e-6); i * step <= high + step * 1e-6; ++i) all.push(i * step);
  return all;
}

// The mean over about a fortieth of the points, which shows the trend of a noisy curve.
function smoothed(points) {
  const weight = 1 - Math.exp(-40 / points.length);
  let mean = 0;
  return points.map(([x, y], i) => [x, mean += Math.max(weight, 1 / (i + 1)) * (y - mean)]);
}

function path(points, at) {
  return 'M' + points.map((p) => at(p).map((v) => v.toFixed(1)).join(' ')).join('L');
}

function axes(svg, xs, ys, at) {
  for (const y of ys) {
    const [, py] = at([0, y]);
    svg.append(shape('line', {class: 'grid', x1: kLeft, x2: kWidth - kRight, y1: py, y2: py}),
        shape('text', {x: kLeft - 6, y: py + 4, 'text-anchor': 'end'}, shown(y)));
  }
  for (const x of xs) {
    const [px] = at([x, 0]);
    svg.append(shape('text', {x: px, y: kHeight - 6, 'text-anchor': 'middle'}, shown(x)));
  }
}

// Shows the value of a curve at the pointer.
function readout(svg, points, at, label, heading) {
  const cross =
      shape('line', {class: 'cross', y1: kTop, y2: kHeight - kBottom, visibility: 'hidden'});
  svg.append(cross);
  const last = heading.textContent;
  svg.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect();
    const x = (event.clientX - box.left) * kWidth / box.width;
    const near = points.reduce((a, b) => Math.abs(at(b)[0] - x) < Math.abs(at(a)[0] - x) ? b : a);
    cross.setAttribute('x1', at(near)[0]);
    cross.setAttribute('x2', at(near)[0]);
    cross.setAttribute('visibility', 'visible');
    heading.textContent = `${shown(near[1])} at ${label} ${shown(near[0])}`;
  });
  svg.addEventListener('pointerleave', () => {
    cross.setAttribute('visibility', 'hidden');
    heading.textContent = last;
  });
}

function curve(series) {
  const box = element('div');
  const points = series.points.filter((p) => p[1] !== null);
  const title = element('h2', series.name);
  const newest = element('b', series.points.length ? shown(series.points.at(-1)[1]) : '');
  title.append(newest);
  box.append(title);
  if (points.length < 2) {
    box.append(element('p', points.length ? 'one point so far' : 'nothing yet', 'empty'));
    return box;
  }
  const ys = points.map((p) => p[1]);
  const x0 = points[0][0], x1 = points.at(-1)[0];
  const low = Math.min(...ys), high = Math.max(...ys);
  const room = (high - low || Math.abs(high) || 1) * 0.05;
  const y0 = low - room, y1 = high + room;
  const at = ([x, y]) => [
    kLeft + (kWidth - kLeft - kRight) * (x - x0) / (x1 - x0 || 1),
    kHeight - kBottom - (kHeight - kTop - kBottom) * (y - y0) / (y1 - y0)];
  const svg = shape('svg', {viewBox: `0 0 ${kWidth} ${kHeight}`, role: 'img',
      'aria-label': `${series.name} from ${shown(ys[0])} to ${shown(ys.at(-1))}`});
  axes(svg, ticks(x0, x1), ticks(y0, y1), at);
  const noisy = points.length > 40;
  const line = noisy ? smoothed(points) : points;
  const floor = kHeight - kBottom;
  svg.append(shape('path', {class: 'area',
      d: `${path(line, at)}L${at(line.at(-1))[0]} ${floor}L${at(line[0])[0]} ${floor}Z`}));
  if (noisy) svg.append(shape('path', {class: 'raw', d: path(points, at)}));
  svg.append(shape('path', {class: 'line', d: path(line, at)}));
  for (const point of noisy ? line.slice(-1) : line) {
    const [cx, cy] = at(point);
    svg.append(shape('circle', {class: 'dot', cx, cy, r: 3.5}));
  }
  readout(svg, points, at, series.x_label, newest);
  box.append(svg);
  return box;
}

function table(data) {
  const box = element('div');
  box.append(element('h2', data.name));
  const t = element('table'), head = element('tr');
  const numeric = data.columns.map((_, i) => i > 0 && data.rows.length > 0 &&
      data.rows.every((row) => /^(-|[\d.,]+( [a-zA-Z%]{1,2})?)$/.test(row[i])));
  data.columns.forEach((column, i) => {
    const cell = element('th', column, numeric[i] ? 'number' : '');
    cell.scope = 'col';
    head.append(cell);
  });
  t.append(head);
  for (const row of data.rows) {
    const line = element('tr');
    row.forEach((cell, i) => line.append(element('td', cell, numeric[i] ? 'number' : '')));
    t.append(line);
  }
  box.append(t);
  return box;
}

function fact([name, value]) {
  const box = element('div', undefined, value.length > 22 ? 'wide' : '');
  box.append(element('dt', name), element('dd', value));
  return box;
}

function draw(status) {
  document.title = status.title;
  $('title').textContent = status.title;
  const state = status.facts.find(([name]) => name === 'state');
  $('state').textContent = state ? state[1] : status.ready ? 'running' : 'not ready';
  $('state').className = status.ready ? 'ready' : 'waiting';
  $('job').hidden = status.progress < 0;
  $('progress').value = Math.max(0, status.progress);
  $('share').textContent = (100 * Math.max(0, status.progress)).toFixed(1) + ' %';
  $('facts').replaceChildren(...status.facts.filter((f) => f !== state).map(fact));
  // The chart does not change while the pointer is on it.
  if (!document.querySelector('#series svg:hover')) {
    $('series').replaceChildren(...status.series.map(curve));
  }
  $('tables').replaceChildren(...status.tables.map(table));
}

async function refresh() {
  try {
    const reply = await fetch('/status.json', {signal: AbortSignal.timeout(5000)});
    draw(await reply.json());
  } catch (error) {
    $('state').textContent = 'no answer: the process has ended, or is not reachable';
    $('state').className = 'lost';
  }
  setTimeout(refresh, 1000);
}

refresh();
