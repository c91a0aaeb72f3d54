/** Whether a headset can be used here, and what is missing otherwise. */

/** Empty when it can, else the reason and the cure. */
export async function whyNoHeadset(): Promise<string> {
  if (!window.isSecureContext) {
    return (
      "Browsers give VR only to pages that come over TLS or from the same computer. " +
      "Make certificates with `vil-bridge keys tls`, name them under http: in the configuration, and open this page by https."
    );
  }
  if (navigator.xr === undefined) {
    return "This browser has no WebXR. Open this page in the headset's own browser, or in Chrome or Edge on the computer that the headset hangs on.";
  }
  try {
    if (await navigator.xr.isSessionSupported("immersive-vr")) return "";
  } catch (error) {
    return `The browser refuses WebXR: ${(error as Error).message}`;
  }
  return "No headset is ready. Connect it and start its software; this page notices by itself.";
}

/** Open a session on the floor. Raises what the browser gives as the reason. */
export async function openSession(): Promise<XRSession> {
  if (navigator.xr === undefined) throw new Error("this browser has no WebXR");
  return navigator.xr.requestSession("immersive-vr", { requiredFeatures: ["local-floor"] });
}
