// A click on a box makes it as wide as the graph; a click on the lowest of those that are already so leads back to all.
document.querySelectorAll(".flame").forEach(function (flame) {
  var boxes = Array.prototype.map.call(flame.children, function (box) {
    var style = box.style;
    return { box: box, left: parseFloat(style.left), width: parseFloat(style.width), name: box.title.split("\n")[0] };
  });
  function show(on) {
    boxes.forEach(function (it) {
      var left = (it.left - on.left) / on.width * 100;
      var right = Math.min(100, left + it.width / on.width * 100);
      left = Math.max(0, left);
      var isSeen = right - left > 0.02;
      it.box.style.display = isSeen ? "" : "none";
      it.box.style.left = left + "%";
      it.box.style.width = Math.max(0, right - left) + "%";
      it.box.textContent = right - left > 2 ? it.name : "";
      it.box.classList.toggle("above", it.width > on.width * 1.0001);
    });
  }
  flame.classList.add("works");
  flame.addEventListener("click", function (event) {
    var chosen = boxes.find(function (it) { return it.box === event.target; });
    if (chosen) { show(chosen); }
  });
});
