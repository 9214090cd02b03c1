/// The meaning of a request's fields by RFC 9113 §8, written with strings for clarity, as the oracle of the decoder.
package struct RequestModel: Equatable {
    package var method: String
    package var target: String
    /// The fields after the pseudo-fields, with `:authority` first; cookie fields are joined.
    package var fields: [HPACKReference.Field]
    /// The `:protocol` of an extended CONNECT.
    package var tunnel: String?

    /// Evaluates fields; `nil` if the request is malformed.
    package init?(_ decoded: [HPACKReference.Field]) {
        guard decoded.allSatisfy(Self.isValid) else { return nil }
        let pseudo = decoded.prefix { $0.name.first == UInt8(ascii: ":") }
        let others = decoded.dropFirst(pseudo.count)
        guard !others.contains(where: { $0.name.first == UInt8(ascii: ":") }) else { return nil }
        var values: [String: [UInt8]] = [:]
        for field in pseudo {
            guard values.updateValue(field.value, forKey: Self.text(field.name)) == nil else { return nil }
        }
        let known: Set = [":method", ":scheme", ":authority", ":path", ":protocol"]
        guard known.isSuperset(of: values.keys), let method = values[":method"] else { return nil }
        guard let target = Self.target(values) else { return nil }
        guard !method.isEmpty, method.count <= 32, method.allSatisfy(Self.isToken) else { return nil }
        guard !target.isEmpty, target.allSatisfy({ $0 > 0x20 && $0 != 0x7f }) else { return nil }
        guard let fields = Self.combine(Array(others), authority: values[":authority"]) else { return nil }
        self.method = values[":protocol"] == nil ? Self.text(method) : "GET"
        self.target = Self.text(target)
        self.fields = fields
        tunnel = values[":protocol"].map(Self.text)
    }

    private static func target(_ values: [String: [UInt8]]) -> [UInt8]? {
        let method = values[":method"].map(text)
        let isTunnel = values[":protocol"] != nil
        if method == "CONNECT", !isTunnel {
            return values[":scheme"] == nil && values[":path"] == nil ? values[":authority"] : nil
        }
        guard !isTunnel || (method == "CONNECT" && values[":authority"] != nil) else { return nil }
        guard let path = values[":path"], ["http", "https"].contains(values[":scheme"].map(text)) else { return nil }
        return path.first == UInt8(ascii: "/") || (text(path) == "*" && method == "OPTIONS") ? path : nil
    }

    private static func combine(
        _ others: [HPACKReference.Field], authority: [UInt8]?
    ) -> [HPACKReference.Field]? {
        var fields: [HPACKReference.Field] = []
        if let authority {
            var field = HPACKReference.Field(":authority", "")
            field.value = authority
            fields.append(field)
        }
        var cookie: Int?
        for field in others {
            switch text(field.name) {
            case "host" where authority != nil:
                guard field.value == authority else { return nil }
            case "cookie":
                if let cookie {
                    fields[cookie].value += Array("; ".utf8) + field.value
                } else {
                    cookie = fields.count
                    fields.append(field)
                }
            default: fields.append(field)
            }
        }
        if let cookie, fields[cookie].value.last == 0x20 { return nil }
        return authority != nil || others.contains { text($0.name) == "host" } ? fields : nil
    }

    /// Whether a line is valid by itself (RFC 9113 §8.2).
    private static func isValid(_ field: HPACKReference.Field) -> Bool {
        let name = text(field.name)
        let isName =
            name.first == ":"
            || (!name.isEmpty && field.name.allSatisfy { isToken($0) && !(0x41...0x5a).contains($0) })
        let blanks: [UInt8?] = [0x20, 0x09]
        let isValue =
            !blanks.contains(field.value.first) && !blanks.contains(field.value.last)
            && field.value.allSatisfy { ($0 >= 0x20 && $0 != 0x7f) || $0 == 0x09 }
        let connectionSpecific: Set = [
            "connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "http2-settings",
        ]
        return isName && isValue && !connectionSpecific.contains(name)
            && (name != "te" || text(field.value) == "trailers")
    }

    private static func isToken(_ byte: UInt8) -> Bool {
        switch byte {
        case 0x30...0x39, 0x41...0x5a, 0x61...0x7a: true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    private static func text(_ bytes: [UInt8]) -> String { String(decoding: bytes, as: UTF8.self) }
}
