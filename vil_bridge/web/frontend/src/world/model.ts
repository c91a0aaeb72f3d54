/** The renderer's own scene, where the bridge has its geometry. */

import { Group, Mesh, MeshBasicMaterial, MeshLambertMaterial, Quaternion, TextureLoader, type MeshStandardMaterial } from "three";
import { GLTFLoader } from "three/addons/loaders/GLTFLoader.js";

/** Our axes (x forward, y left, z up) from glTF's (z forward, x left, y up). */
const FROM_GLTF = new Quaternion(0.5, 0.5, 0.5, 0.5);

/** Load a GLB into our axes (z up), with materials that a phone can draw. */
export async function loadModel(url: string): Promise<Group> {
  const loader = new GLTFLoader().register((parser) => {
    // Its own way fetches blob: addresses, which the page's policy forbids; an image may have one.
    parser.textureLoader = new TextureLoader(parser.options.manager);
    return { name: "images" };
  });
  const { scene } = await loader.loadAsync(url);
  scene.quaternion.copy(FROM_GLTF);
  scene.traverse((part) => {
    if (part instanceof Mesh && !(part.material instanceof MeshBasicMaterial)) part.material = plain(part.material as MeshStandardMaterial);
  });
  return scene;
}

function plain(from: MeshStandardMaterial): MeshLambertMaterial {
  const { color, map, vertexColors, emissive, side, alphaTest } = from;
  from.dispose();
  return new MeshLambertMaterial({ color, map, vertexColors, emissive, side, alphaTest });
}
