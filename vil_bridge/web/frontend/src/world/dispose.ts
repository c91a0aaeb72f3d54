import { InstancedMesh, Line, Mesh, Sprite, type Material, type Object3D } from "three";

/** Take an object out of its parent and give back what it holds on the graphics card. */
export function remove(object: Object3D): void {
  object.removeFromParent();
  object.traverse((part) => {
    if (!(part instanceof Mesh || part instanceof Line || part instanceof Sprite)) return;
    if (part instanceof InstancedMesh) part.dispose();
    if (!(part instanceof Sprite)) part.geometry.dispose(); // all sprites have one together
    for (const material of [part.material as Material | Material[]].flat()) {
      if ("map" in material) (material.map as { dispose(): void } | null)?.dispose();
      material.dispose();
    }
  });
}
