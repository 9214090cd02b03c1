import CloakroomCore
import CloakroomWire
import Crypto
import FoundationEssentials

extension PagesConfiguration: ConfigSection {
    /// `pages`.
    static let keys: [Key<Self>] = [
        Key("errors", \.errors, .flag),
        Key(optional: "name", \.name, .siteName),
        Key { $1.logo = $0.optional("logo", as: $0.logoFile) },
        Key { $1.style = $0.optional("style", as: $0.styleFile) },
    ]
}

extension ValueFormat where Value == String {
    fileprivate static let siteName = ValueFormat("text, at most 64 characters") { text throws(ConfigValueError) in
        let name = try ValueFormat<String>.text.parse(text)
        try require(name.unicodeScalars.count <= 64, "must be at most 64 characters long", "write a shorter name")
        return name
    }
}

extension ConfigScope {
    /// In bytes, as the next one. Every page contains both files.
    private static let maxLogo = 32_768
    private static let maxStyle = 65_536

    fileprivate var logoFile: ValueFormat<PagesConfiguration.Logo> {
        file("an image, at most 32 KiB", Self.maxLogo, render: \.file) { path, bytes throws(ConfigValueError) in
            let ending = String(path[(path.lastIndex(of: ".") ?? path.startIndex)...]).lowercased()
            guard let type = Self.imageTypes[ending] else {
                throw ConfigValueError(
                    "must be the path of an image, not \(path.quoted)",
                    "name a file that ends in .svg, .png, .webp or .jpg")
            }
            return PagesConfiguration.Logo(
                file: path, url: "data:\(type);base64,\(Data(bytes).base64EncodedString())")
        }
    }

    private static let imageTypes = [
        ".svg": "image/svg+xml", ".png": "image/png", ".webp": "image/webp", ".jpg": "image/jpeg",
        ".jpeg": "image/jpeg",
    ]

    fileprivate var styleFile: ValueFormat<PagesConfiguration.Style> {
        file("a style sheet, at most 64 KiB", Self.maxStyle, render: \.file) { path, bytes throws(ConfigValueError) in
            // What browsers make of it before they compare hashes (HTML, "preprocessing the input stream").
            let bytes = bytes.replacing("\r\n".utf8, with: "\n".utf8).replacing("\r".utf8, with: "\n".utf8)
            guard let text = String(validating: bytes, as: UTF8.self), !bytes.contains(0) else {
                throw ConfigValueError("must be a file in UTF-8: \(path.quoted)", "name a style sheet")
            }
            // It would end the element that contains the rules; no rule needs it.
            try require(
                !bytes.map(Byte.lowerCase).contains("</style".utf8),
                "must be rules without HTML: \(path.quoted) contains </style", "remove it")
            let digest = Data(SHA256.hash(data: Data(bytes))).base64EncodedString()
            return PagesConfiguration.Style(file: path, text: text, digest: digest)
        }
    }

    /// A format for the path of a file whose content is part of the configuration. It is empty if the check is offline.
    private func file<Value>(
        _ content: String, _ limit: Int, render: @escaping @Sendable (Value) -> String,
        _ make: @escaping @Sendable (String, [UInt8]) throws(ConfigValueError) -> Value
    ) -> ValueFormat<Value> {
        let (directory, isOffline) = (reading.directory, reading.sources.isOffline)
        return ValueFormat("path of \(content)", render: render) { text throws(ConfigValueError) in
            let path = ConfigRelativePath.resolve(try ValueFormat<String>.text.parse(text), in: directory)
            guard !isOffline else { return try make(path, []) }
            let remedy = "make it smaller: every page contains it"
            return try make(path, ConfigRelativePath.contents(of: path, limit: limit, remedy: remedy))
        }
    }
}
