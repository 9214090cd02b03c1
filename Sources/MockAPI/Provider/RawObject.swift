import FoundationEssentials

/// Changes of a JSON object, or of a query: members by name with their values.
///
/// A value of a JSON object is JSON text, so that it can be of any type, or invalid: `"\"text\""`, `"1.5"`, `"[]"`.
public struct MemberEdit: Sendable, Codable, Equatable {
    /// Members that are replaced, or added after the others in the order of their names.
    public var set: [String: String] = [:]
    /// Members that are removed.
    public var without: [String] = []
    /// Text that is added after the last member and a separator. With it, a name can occur twice.
    public var extra = ""
}

extension MemberEdit {
    /// Reads changes; omitted members have their defaults.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        try members.read(.set, into: &set)
        try members.read(.without, into: &without)
        try members.read(.extra, into: &extra)
    }
}

/// A JSON object in the order of its members, with values as JSON text. It is not validated.
struct RawObject {
    private(set) var members: [(name: String, value: String)] = []
    private var extra = ""

    init(_ members: [(String, String)] = []) {
        self.members = members.map { (name: $0.0, value: $0.1) }
    }

    subscript(name: String) -> String? {
        get { members.first { $0.name == name }?.value }
        set {
            let index = members.firstIndex { $0.name == name }
            switch (index, newValue) {
            case (let index?, let value?): members[index].value = value
            case (let index?, nil): members.remove(at: index)
            case (nil, let value?): members.append((name: name, value: value))
            case (nil, nil): break
            }
        }
    }

    func applying(_ edit: MemberEdit) -> RawObject {
        var result = self
        for (name, value) in edit.set.sorted(by: { $0.key < $1.key }) { result[name] = value }
        for name in edit.without { result[name] = nil }
        result.extra = edit.extra
        return result
    }

    var json: String {
        let texts = members.map { "\(RawJSON.string($0.name)):\($0.value)" } + (extra.isEmpty ? [] : [extra])
        return "{" + texts.joined(separator: ",") + "}"
    }

    /// The object as a query (RFC 6749 Appendix B); the values are texts.
    var query: String {
        let texts = members.map { "\(FormText.encode($0.name))=\(FormText.encode($0.value))" }
        return (texts + (extra.isEmpty ? [] : [extra])).joined(separator: "&")
    }
}

/// Values of JSON as text.
enum RawJSON {
    static func string(_ text: String) -> String {
        let encoder = JSONEncoder()
        encoder.outputFormatting = .withoutEscapingSlashes
        // Each string can be encoded.
        return (try? encoder.encode(text)).map { String(decoding: $0, as: UTF8.self) } ?? #""""#
    }

    static func list(_ texts: [String]) -> String {
        "[" + texts.map(string).joined(separator: ",") + "]"
    }

    /// Whole seconds since 1970.
    static func seconds(_ date: Date) -> String {
        String(Int64(date.timeIntervalSince1970.rounded(.down)))
    }
}

/// Encodes `application/x-www-form-urlencoded`.
enum FormText {
    static func encode(_ text: String) -> String {
        var encoded = ""
        for byte in text.utf8 {
            switch byte {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, 0x2a, 0x2d, 0x2e, 0x5f:
                encoded.unicodeScalars.append(Unicode.Scalar(byte))
            default:
                let digits = String(byte, radix: 16, uppercase: true)
                encoded += "%" + (digits.utf8.count == 1 ? "0" : "") + digits
            }
        }
        return encoded
    }
}
