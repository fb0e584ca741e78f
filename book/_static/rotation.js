/* "Same kernel, the code dissolves": a slider rotates the neurons of a network, by cos α + J sin α with J² = −1.
   Kernel and outputs are computed anew from the rotated neurons, and stand still. Data: companion.films.rotation. */

(function () {
  "use strict";

  const place = document.currentScript.previousElementSibling;
  const data = JSON.parse(place.dataset.rotation);
  const unpack = (text) => new Float32Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const { labels, neurons } = data,
    P = labels.length;
  const both = unpack(data.activations),
    readouts = unpack(data.readouts),
    N = readouts.length / 2;

  /** Activations and readouts at an angle. */
  function turned(angle) {
    const [c, s] = [Math.cos(angle), Math.sin(angle)];
    const mix = (pair, size) => Float64Array.from({ length: size }, (_, k) => c * pair[k] + s * pair[size + k]);
    return { phi: mix(both, N * P), a: mix(readouts, N) };
  }

  function kernelOf(phi) {
    const kernel = new Float64Array(P * P);
    for (let i = 0; i < N; i++)
      for (let m = 0; m < P; m++)
        for (let n = 0; n < P; n++) kernel[m * P + n] += (phi[i * P + m] * phi[i * P + n]) / N;
    return kernel;
  }

  function outputsOf(phi, a) {
    const outputs = new Float64Array(P);
    for (let i = 0; i < N; i++) for (let m = 0; m < P; m++) outputs[m] += a[i] * phi[i * P + m];
    return outputs;
  }

  /** Fraction of the neurons that carry the difference between the two classes. */
  function participation(phi) {
    let second = 0,
      fourth = 0;
    const sizes = [0, 1].map((c) => labels.filter((label) => label === c).length);
    for (let i = 0; i < N; i++) {
      let d = 0;
      for (let m = 0; m < P; m++) d += (labels[m] ? -1 : 1) * (phi[i * P + m] / sizes[labels[m]]);
      second += d ** 2;
      fourth += d ** 4;
    }
    return second ** 2 / (N * fourth);
  }

  // --- drawing ------------------------------------------------------------------------------------

  const GREENS = [[247, 252, 245], [199, 233, 192], [116, 196, 118], [35, 139, 69], [0, 68, 27]]; // prettier-ignore
  const SIGNED = [[178, 24, 43], [244, 165, 130], [247, 247, 247], [146, 197, 222], [33, 102, 172]]; // prettier-ignore

  function shade(colors, x) {
    const u = Math.min(Math.max(x, 0), 1) * (colors.length - 1),
      k = Math.min(Math.floor(u), colors.length - 2);
    return colors[k].map((from, i) => Math.round(from + (u - k) * (colors[k + 1][i] - from)));
  }

  function paint(canvas, rows, columns, color) {
    canvas.width = columns;
    canvas.height = rows;
    const image = new ImageData(columns, rows);
    for (let k = 0; k < rows * columns; k++) image.data.set([...color(k), 255], 4 * k);
    canvas.getContext("2d").putImageData(image, 0, 0);
  }

  function panel(title, label) {
    const box = document.createElement("div"),
      canvas = document.createElement("canvas"),
      head = document.createElement("p");
    head.textContent = title;
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", label);
    box.append(head, canvas);
    panels.append(box);
    return canvas;
  }

  const panels = document.createElement("div");
  panels.className = "rotation-panels";
  const neuronsShown = panel("neurons", "Activations of forty neurons on inputs of two classes");
  const kernelShown = panel("kernel", "Kernel of all neurons: it stays");
  const outputsShown = panel("outputs", "Outputs on the same inputs: they stay");
  const control = document.createElement("label"),
    slider = document.createElement("input"),
    status = document.createElement("p");
  Object.assign(slider, { type: "range", min: 0, max: 90, step: 1, value: 0 });
  control.append("rotate by α ", slider);
  status.className = "rotation-status";
  place.append(panels, control, status);

  const start = turned(0),
    kernel = kernelOf(start.phi),
    outputs = outputsOf(start.phi, start.a);
  const top = Math.max(...start.phi.map(Math.abs)),
    largest = Math.max(...kernel);
  const difference = (one, other) => one.reduce((most, x, k) => Math.max(most, Math.abs(x - other[k])), 0);
  const tiny = (x) => (x < 1e-5 ? "below 0.00001" : x.toFixed(5));

  function show() {
    const { phi, a } = turned((Number(slider.value) * Math.PI) / 180),
      now = kernelOf(phi),
      f = outputsOf(phi, a);
    paint(neuronsShown, neurons.length, P, (k) =>
      shade(SIGNED, 0.5 + phi[neurons[Math.floor(k / P)] * P + (k % P)] / top / 2),
    );
    paint(kernelShown, P, P, (k) => shade(GREENS, now[k] / largest));
    paint(outputsShown, 1, P, (k) => shade(SIGNED, 0.5 + f[k] / 3));
    const share = participation(phi);
    slider.setAttribute("aria-valuetext", `${slider.value} degrees`);
    status.textContent =
      `α = ${slider.value}°. Fraction of the neurons that carry the difference: ${share.toFixed(2)}. ` +
      `Change of the kernel: ${tiny(difference(now, kernel))}, of the outputs: ${tiny(difference(f, outputs))}.`;
    Object.assign(place.dataset, { share, kernel: difference(now, kernel), outputs: difference(f, outputs) });
  }
  slider.addEventListener("input", show);
  show();
  place.hidden = false;
  const figure = place.previousElementSibling;
  figure.querySelector("img").classList.add("print-only");
  figure.prepend(place);
})();
