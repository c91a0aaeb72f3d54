/** Coordinate axes: x red, y green, z blue along their whole length, in both themes. */

import { AxesHelper } from "three";

export function axes(length_m: number): AxesHelper {
  return new AxesHelper(length_m).setColors("#e5383b", "#2b9348", "#3a86ff");
}
