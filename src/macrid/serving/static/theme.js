// @ts-check
// Before the first paint: the theme chosen last time.
try {
  const chosen = localStorage.getItem("macrid-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // Storage is off: the system's theme applies.
}
