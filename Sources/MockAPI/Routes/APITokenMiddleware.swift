import HTTPTypes
import Hummingbird

/// Responds with 403 to every request, for any path, that does not contain the API token exactly once.
///
/// Two fields are rejected even if both are correct: a proxy must set this field, not add one.
struct APITokenMiddleware: RouterMiddleware {
    typealias Context = BasicRequestContext

    private let expected: SecretFingerprint

    init(apiToken: String) {
        expected = SecretFingerprint(of: apiToken)
    }

    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        var presented = request.headers.lazy.filter { $0.name.canonicalName == "x-api-token" }.makeIterator()
        guard let field = presented.next(), presented.next() == nil, SecretFingerprint(of: field.value) == expected
        else { return JSONResponse.error(.forbidden, "The X-API-TOKEN header is missing or wrong.") }
        return try await next(request, context)
    }
}
