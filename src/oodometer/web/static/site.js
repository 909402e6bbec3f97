"use strict";
// Sorting, filters (their state is in the fragment of the address), copying, the theme, and parts
// of a page that a server keeps up to date. Without this script every page can still be read.
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("oodometer-theme"); } catch { return null; } };
  if (stored()) root.dataset.theme = stored();

  const state = () => new URLSearchParams(location.hash.slice(1));
  const keep = (name, value) => {
    const now = state();
    if (value) now.set(name, value); else now.delete(name);
    history.replaceState(null, "", "#" + now);
  };

  const value = (row, column) => {
    const cell = row.cells[column];
    if (!cell) return "";
    const text = cell.dataset.sort ?? cell.textContent.trim();
    const number = Number(text);
    return text !== "" && !Number.isNaN(number) ? number : text.toLowerCase();
  };
  const sort = (table, column, descending) => {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [value(row, column), row]);
    rows.sort(([a], [b]) => {
      const blank = (part) => part === "" || part === "–"; // always last
      if (blank(a) || blank(b)) return blank(a) - blank(b);
      const order = typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
      return descending ? -order : order;
    });
    body.append(...rows.map(([, row]) => row));
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      if (index === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
  };
  const prepare = (table) => {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending" ||
          (!head.hasAttribute("aria-sort") && head.classList.contains("number"));
        sort(table, column, descending);
        if (table.classList.contains("filtered")) keep("sort", (descending ? "-" : "") + column);
      });
    });
  };

  const filters = [...document.querySelectorAll("[data-filter]")];
  const filter = () => {
    const rows = [...document.querySelectorAll("table.filtered tbody tr[data-detector]")];
    let shown = 0;
    for (const row of rows) {
      const fits = filters.every((field) => {
        const wanted = field.value.trim().toLowerCase();
        const own = (row.dataset[field.dataset.filter] ?? "").toLowerCase();
        return !wanted || (field.tagName === "SELECT" ? own === wanted : own.includes(wanted));
      });
      row.hidden = !fits;
      shown += fits;
    }
    const status = document.getElementById("shown");
    if (status) status.textContent = `${shown} of ${rows.length} shown`;
  };
  const fromAddress = () => {
    const now = state();
    for (const field of filters) {
      const wanted = now.get(field.dataset.filter) ?? "";
      field.value = wanted;
      if (field.value !== wanted) field.value = "";
    }
    const order = now.get("sort");
    const table = document.querySelector("table.filtered");
    if (table && order && /^-?\d+$/.test(order)) sort(table, Math.abs(parseInt(order, 10)), order.startsWith("-"));
    filter();
  };
  for (const field of filters) {
    field.addEventListener("input", () => { keep(field.dataset.filter, field.value); filter(); });
  }
  // Links to other metrics and outlier sets keep the filters.
  for (const link of document.querySelectorAll(".choices a")) {
    link.addEventListener("click", () => { link.hash = location.hash; });
  }

  const copyable = (scope) => {
    for (const button of scope.querySelectorAll("[data-copy]")) {
      if (!navigator.clipboard) continue;
      button.hidden = false;
      button.addEventListener("click", async () => {
        await navigator.clipboard.writeText(button.dataset.copy);
        button.textContent = "Copied";
      });
    }
  };
  const dress = (scope) => {
    scope.querySelectorAll("table.sortable").forEach(prepare);
    copyable(scope);
  };

  dress(document);
  if (filters.length) {
    document.getElementById("filters").hidden = false;
    fromAddress();
    addEventListener("hashchange", fromAddress);
  }

  const theme = document.getElementById("theme");
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const name = () => { theme.textContent = dark() ? "Light" : "Dark"; };
  theme.hidden = false;
  name();
  theme.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try { localStorage.setItem("oodometer-theme", root.dataset.theme); } catch { /* storage is a convenience */ }
    name();
  });

  const parts = [...document.querySelectorAll("[data-live]")].map((part) => part.id);
  if (document.body.dataset.server && parts.length) {
    const known = new Map();
    const update = async () => {
      if (!document.hidden) {
        try {
          const answer = await fetch(location.pathname, { headers: { accept: "text/html" } });
          if (answer.ok) {
            const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
            for (const id of parts) {
              const text = fresh.getElementById(id)?.outerHTML;
              const old = document.getElementById(id);
              if (old.contains(document.activeElement)) continue; // whoever is in it is not disturbed
              if (text && known.has(id) && known.get(id) !== text) {
                const part = document.importNode(fresh.getElementById(id), true);
                old.replaceWith(part);
                dress(part);
                if (filters.length) fromAddress();
              }
              if (text) known.set(id, text);
            }
          }
        } catch { /* the server has ended; the page stays as it is */ }
      }
      setTimeout(update, 2000);
    };
    update();
  }
})();
