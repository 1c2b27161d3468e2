// What is copied from a session in a shell: its commands, without the prompts and without what they printed.
document.addEventListener("copy", (event) => {
  const field = document.activeElement;
  const text = field && "value" in field ? field.value : String(document.getSelection());
  const lines = text.split("\n");
  if (!lines.some((line) => line.startsWith("$ "))) return;
  const commands = lines.filter((line) => line.startsWith("$ ")).map((line) => line.slice(2));
  event.clipboardData.setData("text/plain", commands.join("\n"));
  event.preventDefault();
});
