'use strict';
// Draws status.json again and again. Everything from there is put in as text, never as markup.

const $ = (id) => document.getElementById(id);

function element(tag, text) {
  const e = document.createElement(tag);
  if (text !== undefined) e.textContent = text;
  return e;
}

function shown(value) {
  if (value === null) return 'not finite';
  return Number(value).toPrecision(5).replace(/\.?0+$/, '');
}

function curve(series) {
  const box = element('div');
  const points = series.points.filter((p) => p[1] !== null);
  const last = series.points.length ? series.points[series.points.length - 1][1] : undefined;
  box.append(element('h2', last === undefined ? series.name : series.name + ': ' + shown(last)));
  if (points.length < 2) {
    box.append(element('p', 'not enough points yet'));
    return box;
  }
  const xs = points.map((p) => p[0]), ys = points.map((p) => p[1]);
  const x0 = Math.min(...xs), x1 = Math.max(...xs), y0 = Math.min(...ys), y1 = Math.max(...ys);
  const at = (p) => (1000 * (p[0] - x0) / (x1 - x0 || 1)).toFixed(1) + ' ' +
      (290 - 280 * (p[1] - y0) / (y1 - y0 || 1)).toFixed(1);
  const ns = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(ns, 'svg');
  svg.setAttribute('viewBox', '0 0 1000 300');
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label',
      series.name + ' from ' + shown(ys[0]) + ' to ' + shown(ys[ys.length - 1]));
  const path = document.createElementNS(ns, 'path');
  path.setAttribute('d', 'M' + points.map(at).join('L'));
  svg.append(path);
  const scale = element('div');
  scale.className = 'scale';
  scale.append(element('span', series.x_label + ' ' + shown(x0)),
      element('span', shown(y0) + ' to ' + shown(y1)),
      element('span', series.x_label + ' ' + shown(x1)));
  box.append(svg, scale);
  return box;
}

function table(data) {
  const box = element('div');
  box.append(element('h2', data.name));
  const t = element('table'), head = element('tr');
  for (const column of data.columns) {
    const cell = element('th', column);
    cell.scope = 'col';
    head.append(cell);
  }
  t.append(head);
  for (const row of data.rows) {
    const line = element('tr');
    for (const cell of row) line.append(element('td', cell));
    t.append(line);
  }
  box.append(t);
  return box;
}

function fact([name, value]) {
  const box = element('div');
  box.append(element('dt', name), element('dd', value));
  return box;
}

function draw(status) {
  document.title = status.title;
  $('title').textContent = status.title;
  $('state').textContent = status.ready ? 'running' : 'not ready';
  $('state').className = '';
  $('progress').hidden = status.progress < 0;
  $('progress').value = Math.max(0, status.progress);
  $('facts').replaceChildren(...status.facts.map(fact));
  $('series').replaceChildren(...status.series.map(curve));
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
