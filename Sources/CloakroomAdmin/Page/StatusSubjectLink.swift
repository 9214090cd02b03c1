import Foundation

/// The addresses of the pages of single routes and targets.
enum StatusSubjectLink {
    /// The paths of the pages, without the leading slash.
    static let route = "route"
    static let target = "target"
    /// The maximum length of a query in bytes; longer ones name nothing.
    private static let maxQueryLength = 4_096

    static func route(_ name: String, refresh: Int? = nil) -> String {
        "\(route)?name=\(encoded(name))" + suffix(refresh)
    }

    static func target(upstream: String, address: String, refresh: Int? = nil) -> String {
        "\(target)?upstream=\(encoded(upstream))&address=\(encoded(address))" + suffix(refresh)
    }

    /// The decoded value of a parameter; `nil` if it is absent or not UTF-8. The value names a route or target and is
    /// not shown.
    static func value(of name: String, in query: String?) -> String? {
        guard let query, query.utf8.count <= maxQueryLength else { return nil }
        for parameter in query.split(separator: "&") where parameter.hasPrefix(name + "=") {
            return String(parameter.dropFirst(name.count + 1)).removingPercentEncoding
        }
        return nil
    }

    private static func suffix(_ refresh: Int?) -> String { refresh.map { "&refresh=\($0)" } ?? "" }

    /// All but unreserved characters are encoded (RFC 3986 §2.3).
    private static func encoded(_ text: String) -> String {
        var result = ""
        for byte in text.utf8 {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "-"), UInt8(ascii: "."), UInt8(ascii: "_"),
                UInt8(ascii: "~"):
                result.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                result += "%" + (digits.count == 1 ? "0" : "") + digits
            }
        }
        return result
    }
}
