// Search from a folder (file://): browsers start no worker there, so the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.title = "search";
      document.body.appendChild(frame);
      const inner = frame.contentWindow;
      const waiting = [];
      this.frame = frame;
      this.send = (data) => waiting.push(data);
      inner.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = frame.contentDocument.createElement("script");
      script.src = url;
      script.onload = () => {
        this.send = (data) => inner.dispatchEvent(new inner.MessageEvent("message", { data }));
        waiting.splice(0).forEach(this.send);
      };
      frame.contentDocument.body.appendChild(script);
    }
    postMessage(data) {
      setTimeout(() => this.send(data));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
