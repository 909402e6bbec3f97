(function () {
  "use strict";
  var root = document.documentElement;
  function all(selector, within) { return Array.from((within || document).querySelectorAll(selector)); }

  /* Light and dark. */
  var button = document.getElementById("theme");
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function dark() { return root.dataset.theme ? root.dataset.theme === "dark" : system.matches; }
  function label() {
    button.textContent = dark() ? "Light" : "Dark";
    button.setAttribute("aria-label", "Switch to " + (dark() ? "light" : "dark") + " theme");
  }
  button.hidden = false;
  label();
  button.addEventListener("click", function () {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("oodometer-theme", root.dataset.theme); } catch (error) { /* private mode */ }
    label();
  });
  system.addEventListener("change", label);

  /* The state of the page, which its address holds: what is chosen, and how tables are sorted. */
  var state = { detector: "", family: "", set: "", level: "", name: "", sort: {} };
  var bar = document.getElementById("filters");
  var fields = bar ? all("[data-state]", bar) : [];
  var said = document.getElementById("filters-said");

  function read() {
    var hash = location.hash.slice(1);
    if (hash.indexOf("=") < 0) return false;
    var found = new URLSearchParams(hash);
    fields.forEach(function (field) { state[field.dataset.state] = found.get(field.dataset.state) || ""; });
    state.sort = {};
    found.getAll("sort").forEach(function (entry) {
      var parts = entry.split(".");
      if (parts.length === 3) state.sort[parts[0]] = { column: Number(parts[1]), sign: parts[2] === "up" ? 1 : -1 };
    });
    return true;
  }
  function write() {
    var out = new URLSearchParams();
    fields.forEach(function (field) { if (state[field.dataset.state]) out.set(field.dataset.state, state[field.dataset.state]); });
    Object.keys(state.sort).forEach(function (id) {
      out.append("sort", id + "." + state.sort[id].column + "." + (state.sort[id].sign > 0 ? "up" : "down"));
    });
    var text = out.toString();
    try { history.replaceState(null, "", text ? "#" + text : location.pathname + location.search); } catch (error) { /* a page without an address */ }
  }

  /* What is marked and hidden follows from rules, which hold for parts that are shown later, too. */
  var sheet = document.styleSheets[0], rules = 0, hovered = 0;
  function quoted(text) { return '"' + CSS.escape(text) + '"'; }
  function add(rule) { sheet.insertRule(rule, sheet.cssRules.length); rules += 1; }
  function forget() { while (rules) { sheet.deleteRule(sheet.cssRules.length - 1); rules -= 1; } }
  function only(attribute, value) {
    add("svg.figure [" + attribute + "]:not([" + attribute + "=" + quoted(value) + "]) { opacity: .22; }");
  }
  function mark(name) {
    only("data-detector", name);
    add("tr[data-detector=" + quoted(name) + "] > * { background: var(--mark); }");
  }
  function columns() {
    /* Of columns that are about outlier sets, show those of the chosen one. */
    all("table.sortable").forEach(function (table) {
      var sets = Array.from(table.tHead.rows[0].cells).map(function (head) { return head.dataset.set; });
      if (sets.indexOf(state.set) < 0) return;
      sets.forEach(function (set, index) {
        if (set && set !== state.set) add("#" + CSS.escape(table.id) + " tr > :nth-child(" + (index + 1) + ") { display: none; }");
      });
    });
  }
  function apply() {
    forget();
    hovered = 0;
    if (state.detector) mark(state.detector);
    if (state.set) {
      only("data-set", state.set);
      add("tr[data-set]:not([data-set=" + quoted(state.set) + "]) { display: none; }");
      columns();
    }
    var level = all("#filter-level option").find(function (option) { return state.level && option.value === state.level; });
    if (level) {
      var own = "[data-factor=" + quoted(level.dataset.factor) + "]:not([data-level=" + quoted(level.value) + "])";
      add("svg.figure " + own + " { opacity: .22; }");
      add("tr" + own + " { display: none; }");
    }
    var family = all("#filter-family option").find(function (option) { return state.family && option.value === state.family; });
    if (family) {
      var kept = JSON.parse(family.dataset.detectors).map(function (name) { return "[data-detector=" + quoted(name) + "]"; });
      add("tr[data-detector]:not(" + kept.join() + ") { display: none; }");
      add("svg.figure [data-detector]:not(" + kept.join() + ") { opacity: .22; }");
    }
    if (state.name) {
      var without = ":not([data-detector*=" + quoted(state.name) + " i])";
      add("tr[data-detector]" + without + " { display: none; }");
      add("svg.figure [data-detector]" + without + " { opacity: .22; }");
    }
    var chosen = fields.filter(function (field) { return state[field.dataset.state]; });
    fields.forEach(function (field) { if (field.value !== state[field.dataset.state]) field.value = state[field.dataset.state]; });
    if (bar) {
      bar.classList.toggle("active", chosen.length > 0);
      document.getElementById("filters-clear").hidden = !chosen.length;
      said.textContent = chosen.length ? chosen.map(function (field) { return field.dataset.word + " " + state[field.dataset.state]; }).join(", ") + " shown" : "";
    }
  }
  function choose(key, value) { state[key] = value; apply(); write(); }

  if (bar) {
    bar.hidden = false;
    fields.forEach(function (field) {
      field.addEventListener(field.tagName === "SELECT" ? "change" : "input", function () { choose(field.dataset.state, field.value); });
    });
    document.getElementById("filters-clear").addEventListener("click", function () {
      fields.forEach(function (field) { state[field.dataset.state] = ""; });
      apply();
      write();
      fields[0].focus();
    });
    /* Point at a detector to see it everywhere; click to keep it. */
    document.addEventListener("pointerover", function (event) {
      var own = event.target.closest ? event.target.closest("[data-detector]") : null;
      if (state.detector) return;
      if (hovered) { forget(); apply(); }
      if (own) { mark(own.dataset.detector); hovered = 1; }
    });
    document.addEventListener("click", function (event) {
      var own = event.target.closest && !event.target.closest("button, a, summary, select, input") ? event.target.closest("[data-detector]") : null;
      if (!own || String(window.getSelection())) return;
      choose("detector", state.detector === own.dataset.detector ? "" : own.dataset.detector);
    });
    document.addEventListener("keydown", function (event) {
      if (event.key === "Escape" && state.detector) choose("detector", "");
    });
  }

  /* Tables sort by any column. */
  function sort(table, column, sign) {
    var body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells);
    heads.forEach(function (other) { other.removeAttribute("aria-sort"); });
    heads[column].setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
    Array.from(body.rows).map(function (row) {
      var cell = row.cells[column];
      return { row: row, gone: cell.classList.contains("missing"), number: "sort" in cell.dataset ? Number(cell.dataset.sort) : null, text: cell.textContent };
    }).sort(function (a, b) {
      if (a.gone !== b.gone) return a.gone ? 1 : -1;
      if (a.number !== null && b.number !== null) return sign * (a.number - b.number);
      return sign * a.text.localeCompare(b.text, undefined, { numeric: true });
    }).forEach(function (entry) { body.appendChild(entry.row); });
  }
  function sortable(table) {
    var heads = Array.from(table.tHead.rows[0].cells);
    if (table.tBodies[0].rows.length < 2) return;
    heads.forEach(function (head, column) {
      var sorter = document.createElement("button");
      sorter.type = "button";
      sorter.className = "sort";
      while (head.firstChild) sorter.appendChild(head.firstChild);
      head.appendChild(sorter);
      sorter.addEventListener("click", function () {
        var now = head.getAttribute("aria-sort");
        var sign = now === "descending" ? 1 : now === "ascending" ? -1 : head.classList.contains("number") ? -1 : 1;
        state.sort[table.id] = { column: column, sign: sign };
        sort(table, column, sign);
        write();
      });
    });
    numbers(table);
    var wanted = state.sort[table.id];
    if (wanted && heads[wanted.column]) sort(table, wanted.column, wanted.sign);
  }

  /* From a number to the stored scores that it is made of. */
  var dialog = document.getElementById("origin"), stored = {};
  function inflated(script) {
    var bytes = Uint8Array.from(atob(script.textContent), function (sign) { return sign.charCodeAt(0); });
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }
  function numbers(table) {
    var section = table.closest("[data-origins]");
    if (!section || !dialog || !("DecompressionStream" in window)) return;
    var sets = Array.from(table.tHead.rows[0].cells).map(function (head) { return head.dataset.set; });
    all("tbody tr[data-detector] > td[data-sort]", table).forEach(function (cell) {
      if (!sets[cell.cellIndex]) return;
      var opener = document.createElement("button");
      opener.type = "button";
      opener.className = "number-origin";
      opener.tabIndex = -1;
      opener.title = "Show the stored scores behind this number";
      cell.insertBefore(opener, cell.firstChild).appendChild(opener.nextSibling);  // its interval stays beside
    });
    var first = table.querySelector(".number-origin");
    if (first) first.tabIndex = 0;
  }
  function row(run, digests, command) {
    var line = document.createElement("tr"), head = document.createElement("th");
    head.scope = "row";
    head.textContent = run || "the run";
    line.appendChild(head);
    digests.forEach(function (digest) {
      var cell = document.createElement("td"), code = document.createElement("code"), copier = document.createElement("button");
      code.textContent = digest || "missing";
      cell.appendChild(code);
      if (digest) {
        copier.type = "button";
        copier.className = "copy";
        copier.textContent = "Copy";
        copier.dataset.text = command + " " + digest;
        copier.title = copier.dataset.text;
        copier.setAttribute("aria-label", "Copy: " + copier.dataset.text);
        cell.append(" ", copier);
      }
      line.appendChild(cell);
    });
    return line;
  }
  function show(detector, set, cells) {
    var own = cells.digests[detector] || {}, none = cells.runs.map(function () { return ""; });
    var outliers = set in own ? own[set].split(" ") : none, known = cells.id in own ? own[cells.id].split(" ") : none;
    document.getElementById("origin-title").textContent = detector + " on " + set;
    document.getElementById("origin-outliers").textContent = "scores on " + set;
    document.getElementById("origin-known").textContent = "scores on " + cells.id;
    var rows = cells.runs.map(function (run, place) { return row(run, [outliers[place], known[place]], cells.command); });
    document.getElementById("origin-runs").replaceChildren.apply(document.getElementById("origin-runs"), rows);
    dialog.showModal();
  }
  if (dialog) {
    document.getElementById("origin-close").addEventListener("click", function () { dialog.close(); });
    document.addEventListener("click", function (event) {
      var opener = event.target.closest ? event.target.closest(".number-origin") : null;
      if (!opener) return;
      var cell = opener.closest("td"), table = opener.closest("table");
      var place = opener.closest("[data-origins]").dataset.origins;
      stored[place] = stored[place] || inflated(document.getElementById(place)).then(JSON.parse);
      stored[place].then(function (cells) {
        show(cell.parentNode.dataset.detector, table.tHead.rows[0].cells[cell.cellIndex].dataset.set, cells);
      });
    });
    /* One stop of the tab key per table; arrows move from number to number. */
    document.addEventListener("keydown", function (event) {
      var step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (!step || !event.target.classList.contains("number-origin")) return;
      var cell = event.target.closest("td"), rows = Array.from(cell.closest("tbody").rows);
      var line = rows[rows.indexOf(cell.parentNode) + step[0]], other = line && line.cells[cell.cellIndex + step[1]];
      var next = other && other.querySelector(".number-origin");
      if (!next) return;
      event.preventDefault();
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    });
  }

  /* Large parts are compressed in the page, and unpacked when they come into view. */
  function unpack(part) {
    if (part.dataset.state) return part.dataset.state;
    part.dataset.state = "loading";
    inflated(part.querySelector("script")).then(function (markup) {
      part.innerHTML = markup;
      part.dataset.state = "ready";
      all("table.sortable", part).forEach(sortable);
      if (state.set) apply();
    }).catch(function () { part.dataset.state = ""; part.querySelector(".packed-note").hidden = false; });
  }
  var seen = "IntersectionObserver" in window ? new IntersectionObserver(function (entries) {
    entries.forEach(function (entry) { if (entry.isIntersecting) { seen.unobserve(entry.target); unpack(entry.target); } });
  }, { rootMargin: "600px" }) : null;
  all(".packed").forEach(function (part) {
    if (!("DecompressionStream" in window)) { part.querySelector(".packed-note").hidden = false; return; }
    if (seen) seen.observe(part); else unpack(part);
  });

  /* Copy what leads to the origin of a number. */
  document.addEventListener("click", function (event) {
    var copier = event.target.closest ? event.target.closest("button.copy") : null;
    if (!copier) return;
    var source = copier.dataset.from ? document.getElementById(copier.dataset.from) : copier.parentNode.querySelector("code");
    function done(word) { copier.textContent = word; setTimeout(function () { copier.textContent = "Copy"; }, 1500); }
    function select() { window.getSelection().selectAllChildren(source); done("Selected"); }
    if (!navigator.clipboard) { select(); return; }
    navigator.clipboard.writeText(copier.dataset.text || source.textContent).then(function () { done("Copied"); }, select);
  });
  all("button.copy").forEach(function (copier) { copier.hidden = false; });

  window.addEventListener("beforeprint", function () {
    all("details").forEach(function (part) { if (!part.classList.contains("data")) part.open = true; });
  });
  window.addEventListener("hashchange", function () { if (read()) { apply(); } });
  read();
  all("table.sortable").forEach(sortable);
  apply();
})();
