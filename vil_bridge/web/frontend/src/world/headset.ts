/** Whether a headset can be used here, and what is missing otherwise. */

/** Empty when it can, else the reason and the cure. */
export async function whyNoHeadset(): Promise<string> {
  if (!window.isSecureContext) {
    return (
      "Browsers allow VR only for pages over TLS or from the same computer. " +
      "Create certificates with `vil-bridge keys tls`, name them under http: in the configuration, and open this page by https."
    );
  }
  if (navigator.xr === undefined) {
    return "This browser has no WebXR. Open this page in the headset's own browser, or in Chrome or Edge on the computer of the headset.";
  }
  try {
    if (await navigator.xr.isSessionSupported("immersive-vr")) return "";
  } catch (error) {
    return `The browser refuses WebXR: ${(error as Error).message}`;
  }
  return "No headset is ready. Connect it and start its software. This page detects it.";
}

/** Open a session on the floor. Raises what the browser gives as the reason. */
export async function openSession(): Promise<XRSession> {
  if (navigator.xr === undefined) throw new Error("this browser has no WebXR");
  return navigator.xr.requestSession("immersive-vr", { requiredFeatures: ["local-floor"] });
}
