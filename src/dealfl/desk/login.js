"use strict";
// Exchanges the token behind the # of the address, which browsers send to nobody, for a cookie.
const token = location.hash.slice(1);
if (token) {
  history.replaceState(null, "", "/");
  document.getElementById("entering").hidden = false;
  const form = document.getElementById("login");
  form.elements.token.value = token;
  form.hidden = true;
  form.submit();
}
