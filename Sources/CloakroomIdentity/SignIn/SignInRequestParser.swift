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
        _ request: AccountRequest, name: AccountsConfiguration.SignInName = .defaults
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
        case formType: return try form(request.body, name)
        default: throw .unsupportedMediaType
        }
    }

    /// Whether a value of `Content-Type` is that of a form.
    static func isForm(_ contentType: String?) -> Bool { contentType.map(mediaType) == formType }

    /// Whether a value of `Content-Type` is that of JSON.
    static func isJSON(_ contentType: String?) -> Bool { contentType.map(mediaType) == "application/json" }

    private static let formType = "application/x-www-form-urlencoded"
    /// Whether the body requests a cookie that remains after the browser is closed: the member `persistent` with the
    /// value `true` in JSON, or the field `persistent` with the value `on`, which checked boxes send, in a form.
    static func requestsPersistence(_ request: AccountRequest) -> Bool {
        let name = JSONMemberName(SignInPage.persistentName)
        switch request.contentType.map(mediaType) {
        case "application/json":
            guard case .object(let members)? = JSONValue(document: request.body.bytes) else { return false }
            return members[name] == .bool(true)
        case formType:
            return TokenClaims.isSame(FormURLEncodedBody.read(request.body.bytes)?[name] ?? "", "on")
        default: return false
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
