/// The media types of files, by the ending of their names.
package enum FileTypes {
    /// The type of names with an unknown ending. Browsers do not show it.
    private static let unknown = "application/octet-stream"

    /// `text/` with UTF-8; each item is endings and a subtype, or a type.
    private static let table = """
        html htm:text/html css:text/css js mjs:text/javascript txt log:text/plain md:text/markdown csv:text/csv
        ics:text/calendar vtt:text/vtt xml:application/xml json map:application/json jsonld:application/ld+json
        webmanifest:application/manifest+json wasm:application/wasm pdf:application/pdf zip:application/zip
        gz:application/gzip br:application/x-brotli zst:application/zstd tar:application/x-tar rtf:application/rtf
        xhtml:application/xhtml+xml rss:application/rss+xml atom:application/atom+xml geojson:application/geo+json
        yaml yml:application/yaml epub:application/epub+zip jar:application/java-archive
        docx:application/vnd.openxmlformats-officedocument.wordprocessingml.document
        xlsx:application/vnd.openxmlformats-officedocument.spreadsheetml.sheet
        pptx:application/vnd.openxmlformats-officedocument.presentationml.presentation
        svg:image/svg+xml png:image/png jpg jpeg:image/jpeg gif:image/gif webp:image/webp avif:image/avif
        ico:image/x-icon bmp:image/bmp tif tiff:image/tiff jxl:image/jxl apng:image/apng
        woff:font/woff woff2:font/woff2 ttf:font/ttf otf:font/otf
        mp3:audio/mpeg m4a:audio/mp4 oga ogg opus:audio/ogg wav:audio/wav flac:audio/flac weba:audio/webm
        mp4 m4v:video/mp4 webm:video/webm ogv:video/ogg mov:video/quicktime
        m3u8:application/vnd.apple.mpegurl ts:video/mp2t glb:model/gltf-binary gltf:model/gltf+json
        """

    private static let types: [String: String] = {
        var types: [String: String] = [:]
        var endings: [String] = []
        for word in table.split(whereSeparator: { $0 == " " || $0 == "\n" }) {
            let parts = word.split(separator: ":")
            endings.append(String(parts[0]))
            guard parts.count == 2 else { continue }
            for ending in endings {
                types[ending] = parts[1] + (parts[1].hasPrefix("text/") ? "; charset=utf-8" : "")
            }
            endings = []
        }
        return types
    }()

    /// The type of a file.
    /// - Parameter configured: Types by ending, which precede.
    package static func type(of name: String, configured: [String: String]) -> String {
        guard let dot = name.utf8.lastIndex(of: UInt8(ascii: ".")) else { return unknown }
        let ending = name[name.utf8.index(after: dot)...].lowercased()
        return configured[ending] ?? types[ending] ?? unknown
    }

    /// Whether files of a type become smaller by compression.
    package static func isText(_ type: String) -> Bool {
        // Files of the type openxmlformats are archives.
        type.hasPrefix("text/")
            || !type.contains("openxmlformats")
                && ["json", "xml", "javascript", "wasm", "yaml", "manifest"].contains { type.contains($0) }
    }
}
