import CloakroomCore
import FoundationEssentials

/// Extracts the credentials from a sign-in request, before any call to the upstream.
///
/// `Authorization: Basic` has precedence over a body; another scheme is ignored.
///
/// Folder `SignIn/`: reads the credentials of a sign-in request and decides whether the attempt is allowed now.
enum SignInRequestParser {
    /// The reason why a request is not a valid sign-in.
    enum SignInInputError: Error, Equatable {
        /// The request is malformed (400).
        case malformed
        /// The media type of the body is not supported (415).
        case unsupportedMediaType
        /// The request is well-formed, but has no credentials or impossible ones (422).
        case invalid

        var code: ProblemCode {
            switch self {
            case .malformed: .badRequest
            case .unsupportedMediaType: .unsupportedMediaType
            case .invalid: .invalidInput
            }
        }
    }

    /// - Parameter name: The member and the kind of the user name.
    static func read(
        _ request: AccountRequest, name: AccountsConfiguration.SignInName = .init()
    ) throws(SignInInputError) -> Credentials {
        if let authorization = request.authorization {
            switch BasicAuthorization.read(authorization) {
            case .pair(let text, let password): return try credentials(text, name.kind, password)
            case .malformed: throw .malformed
            case .otherScheme: break
            }
        }
        guard !request.body.isEmpty else { throw .invalid }
        switch request.contentType.map(mediaType) {
        case "application/json": return try json(request.body, name)
        case "application/x-www-form-urlencoded": return try form(request.body, name)
        default: throw .unsupportedMediaType
        }
    }

    private static func json(
        _ body: Secret, _ name: AccountsConfiguration.SignInName
    ) throws(SignInInputError) -> Credentials {
        guard let document = JSONValue(document: body.bytes) else { throw .malformed }
        guard case .object(let members) = document, case .string(let text)? = members[JSONMemberName(name.member)],
            case .string(let password)? = members["password"]
        else { throw .invalid }
        return try credentials(text, name.kind, Secret(password))
    }

    private static func form(
        _ body: Secret, _ name: AccountsConfiguration.SignInName
    ) throws(SignInInputError) -> Credentials {
        guard let fields = FormURLEncodedBody.read(body.bytes) else { throw .malformed }
        guard let text = fields[JSONMemberName(name.member)], let password = fields["password"] else { throw .invalid }
        return try credentials(text, name.kind, Secret(password))
    }

    private static func credentials(
        _ name: String, _ kind: AccountNameKind, _ password: Secret
    ) throws(SignInInputError) -> Credentials {
        do {
            return try Credentials(name: name, kind: kind, password: password)
        } catch {
            throw .invalid
        }
    }

    /// The media type without its parameters (RFC 9110 §8.3.1); empty if it is longer than every supported type.
    private static func mediaType(_ contentType: String) -> String {
        let type = contentType.utf8.prefix { $0 != UInt8(ascii: ";") }
        guard type.count <= 64 else { return "" }
        return String(decoding: type.filter { $0 != 0x20 && $0 != 0x09 }, as: UTF8.self).lowercased()
    }
}

/// Reads `Authorization: Basic` in UTF-8 (RFC 7617).
enum BasicAuthorization {
    enum ParseResult {
        /// Another scheme, which a sign-in ignores.
        case otherScheme
        /// A malformed `Basic` value.
        case malformed
        /// A name and a password, separated by the first colon.
        case pair(name: String, password: Secret)
    }

    static func read(_ authorization: Secret) -> ParseResult {
        let words = authorization.bytes.split(separator: 0x20, maxSplits: 1, omittingEmptySubsequences: false)
        // Compared by its bytes: comparing it as `String` would normalize it first, which takes more than linear time.
        guard let scheme = words.first, scheme.lazy.map({ $0 | 0x20 }).elementsEqual("basic".utf8) else {
            return .otherScheme
        }
        guard words.count == 2, let decoded = Data(base64Encoded: Data(words[1].drop { $0 == 0x20 })),
            String(validating: decoded, as: UTF8.self) != nil, let colon = decoded.firstIndex(of: UInt8(ascii: ":"))
        else { return .malformed }
        let name = String(decoding: decoded[..<colon], as: UTF8.self)
        return .pair(name: name, password: Secret(bytes: Array(decoded[decoded.index(after: colon)...])))
    }
}

/// The fields of a form (`application/x-www-form-urlencoded`, WHATWG URL §5.1).
enum FormURLEncodedBody {
    /// Parses a form.
    /// - Returns: `nil` for an invalid escape, for invalid UTF-8, and for a duplicate name, whose meaning would be
    ///   ambiguous.
    static func read(_ body: [UInt8]) -> [JSONMemberName: String]? {
        // Names are compared by their bytes, see ``JSONMemberName``.
        var fields: [JSONMemberName: String] = [:]
        for pair in body.split(separator: UInt8(ascii: "&")) {
            let halves = pair.split(separator: UInt8(ascii: "="), maxSplits: 1, omittingEmptySubsequences: false)
            guard let first = halves.first, let name = decode(first) else { return nil }
            guard let value = halves.count == 2 ? decode(halves[1]) : "" else { return nil }
            guard fields.updateValue(value, forKey: JSONMemberName(name)) == nil else { return nil }
        }
        return fields
    }

    private static func decode(_ text: ArraySlice<UInt8>) -> String? {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(text.count)
        var rest = text
        while let byte = rest.popFirst() {
            switch byte {
            case UInt8(ascii: "+"):
                bytes.append(0x20)
            case UInt8(ascii: "%"):
                guard let high = rest.popFirst().flatMap(digit), let low = rest.popFirst().flatMap(digit) else {
                    return nil
                }
                bytes.append(high << 4 | low)
            default:
                bytes.append(byte)
            }
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        case UInt8(ascii: "A")...UInt8(ascii: "F"): byte - UInt8(ascii: "A") + 10
        default: nil
        }
    }
}
