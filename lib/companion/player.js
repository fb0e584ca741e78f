for (const player of document.querySelectorAll(".player:not([data-ready])")) {
  player.dataset.ready = "";
  const image = (player.closest("figure") ?? player.previousElementSibling).querySelector("img");
  const button = player.querySelector("button"),
    slider = player.querySelector("input");
  const frames = JSON.parse(player.dataset.frames);
  let timer = null;
  const show = (k) => {
    slider.value = k;
    image.src = frames[k];
  };
  const pause = () => {
    clearInterval(timer);
    timer = null;
    button.textContent = "Play";
  };
  const play = () => {
    for (const source of frames) new Image().src = source;
    timer = setInterval(() => show((Number(slider.value) + 1) % frames.length), Number(player.dataset.interval));
    button.textContent = "Pause";
  };
  button.addEventListener("click", () => (timer === null ? play() : pause()));
  slider.addEventListener("input", () => {
    pause();
    show(Number(slider.value));
  });
}
