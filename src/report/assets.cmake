# The page's parts are put into the program byte for byte by the assembler (assets.S).
enable_language(ASM)
set(report_assets ${CMAKE_CURRENT_LIST_DIR}/assets)
set(report_parts
    PAGE ${report_assets}/page.html
    STYLE ${report_assets}/page.css
    DATA ${report_assets}/data.js
    CHART ${report_assets}/chart.js
    COMPARISON ${report_assets}/comparison.js
    RUNS ${report_assets}/runs.js
    CONTROLS ${report_assets}/page.js
    DYGRAPHS ${DYGRAPHS_JS}
    DYGRAPHS_STYLE ${DYGRAPHS_CSS})
set(report_source ${CMAKE_CURRENT_LIST_DIR}/assets.S)
target_sources(firn_tools PRIVATE ${report_source})
while(report_parts)
  list(POP_FRONT report_parts name path)
  set_property(SOURCE ${report_source} APPEND PROPERTY COMPILE_DEFINITIONS "ASSET_${name}=\"${path}\"")
  set_property(SOURCE ${report_source} APPEND PROPERTY OBJECT_DEPENDS ${path})
endwhile()
