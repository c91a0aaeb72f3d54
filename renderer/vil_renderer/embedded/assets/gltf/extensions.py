"""Extensions of glTF.

Which ones are read, and what a file loses, or how to cure it, where one is not.
"""

from __future__ import annotations

import logging
from typing import Final

from vil_renderer.embedded.assets.gltf.container import Document

logger = logging.getLogger(__name__)

READ: Final = {
    "EXT_mesh_gpu_instancing",
    "EXT_meshopt_compression",
    "EXT_texture_avif",
    "EXT_texture_webp",
    "KHR_draco_mesh_compression",
    "KHR_lights_punctual",
    "KHR_materials_clearcoat",
    "KHR_materials_emissive_strength",
    "KHR_materials_ior",
    "KHR_materials_pbrSpecularGlossiness",
    "KHR_materials_sheen",
    "KHR_materials_specular",
    "KHR_materials_transmission",
    "KHR_materials_unlit",
    "KHR_materials_variants",
    "KHR_materials_volume",
    "KHR_mesh_quantization",
    "KHR_node_visibility",
    "KHR_texture_transform",
    "KHR_xmp_json_ld",
}
"""Those that are drawn, as the table of the page on scenes says."""
_CURES: Final = {
    "KHR_meshopt_compression": "pack it with EXT_meshopt_compression (gltfpack -c), or without "
    "compression",
    "KHR_texture_basisu": "convert its KTX2 textures to PNG or JPEG (gltf-transform ktxdecompress)",
    "MSFT_texture_dds": "convert its DDS textures to PNG or JPEG",
    "KHR_animation_pointer": "animate nodes and morph targets instead",
    "KHR_gaussian_splatting": "these are Gaussian splats, not a mesh: name the file under `splats` "
    "of the scene file",
    "KHR_gaussian_splatting_compression_spz_2": "export the splats without compression, or as .spz",
    "KHR_spz_gaussian_splats_compression": "export the splats without compression, or as .spz",
    "KHR_spz_compression": "export the splats without compression, or as .spz",
}
_LOST: Final = {
    "KHR_materials_anisotropy": "highlights are round",
    "KHR_materials_diffuse_transmission": "light does not pass through leaves and cloth",
    "KHR_materials_dispersion": "glass has no colours at its edges",
    "KHR_materials_iridescence": "thin films have no colours",
    "KHR_texture_basisu": "textures that it alone names are left out",
    "MSFT_texture_dds": "textures that it alone names are left out",
    "KHR_animation_pointer": "its channels are left out",
    "KHR_meshopt_compression": "the uncompressed buffers are read",
    "KHR_gaussian_splatting": "its points are left out",
}


def check_claims(document: Document, also: frozenset[str] = frozenset()) -> None:
    """Check the version and the extensions that a file claims; warn of those that are left out.

    Args:
        document: the file.
        also: extensions that its reader supports in addition to those of models.

    Raises:
        AssetError: it needs a later version, or an extension that is not read; the message names
            the cure.
    """
    asset = document.gltf.asset
    gltf = document.gltf
    if not asset.version.startswith("2."):
        raise document.error("asset", f"glTF {asset.version[:16]}, only 2.x is read")
    if asset.min_version is not None and asset.min_version != "2.0":
        raise document.error(
            "asset",
            f"needs a reader of glTF {asset.min_version[:16]}; 2.0 is read. Export it as 2.0",
        )
    for extension in gltf.extensions_required:
        if extension not in READ | also:
            cure = _CURES.get(extension, "export it without that extension")
            raise document.error("extensionsRequired", f"{extension[:80]} is not supported: {cure}")
    for extension in sorted(set(gltf.extensions_used) - READ - also):
        lost = _LOST.get(extension, "what it describes is left out")
        logger.warning(
            "%s: extensionsUsed: %s is not supported: %s", document.name, extension[:80], lost
        )
