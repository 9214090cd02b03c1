import CloakroomCore

/// Extracts the credentials from a sign-in request, before any call to the upstream.
///
/// `Authorization: Basic` has precedence over a body; another scheme is ignored.
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

    static func read(_ request: AccountRequest) throws(SignInInputError) -> Credentials {
        if let authorization = request.authorization {
            switch BasicAuthorization.read(authorization) {
            case .pair(let name, let password): return try credentials(email: name, password: password)
            case .malformed: throw .malformed
            case .otherScheme: break
            }
        }
        guard !request.body.isEmpty else { throw .invalid }
        switch request.contentType.map(mediaType) {
        case "application/json": return try json(request.body)
        case "application/x-www-form-urlencoded": return try form(request.body)
        default: throw .unsupportedMediaType
        }
    }

    private static func json(_ body: Secret) throws(SignInInputError) -> Credentials {
        guard let document = JSONValue(document: body.bytes) else { throw .malformed }
        guard case .string(let email) = document[path: "email"], case .string(let password) = document[path: "password"]
        else { throw .invalid }
        return try credentials(email: email, password: Secret(password))
    }

    private static func form(_ body: Secret) throws(SignInInputError) -> Credentials {
        guard let fields = FormURLEncodedBody.read(body.bytes) else { throw .malformed }
        guard let email = fields["email"], let password = fields["password"] else { throw .invalid }
        return try credentials(email: email, password: Secret(password))
    }

    private static func credentials(email: String, password: Secret) throws(SignInInputError) -> Credentials {
        do {
            return try Credentials(email: email, password: password)
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
