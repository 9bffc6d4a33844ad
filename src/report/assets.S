/* The page's parts, put into the program as they are. CMake gives the paths. */
    .section .rodata

    .macro asset name, path
    .globl report_asset_\name
    .globl report_asset_\name\()_end
report_asset_\name:
    .incbin "\path"
report_asset_\name\()_end:
    .byte 0
    .endm

    asset page, ASSET_PAGE
    asset style, ASSET_STYLE
    asset data, ASSET_DATA
    asset chart, ASSET_CHART
    asset comparison, ASSET_COMPARISON
    asset runs, ASSET_RUNS
    asset controls, ASSET_CONTROLS
    asset dygraphs, ASSET_DYGRAPHS
    asset dygraphs_style, ASSET_DYGRAPHS_STYLE

    .section .note.GNU-stack, "", @progbits
