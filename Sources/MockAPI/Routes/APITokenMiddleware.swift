import HTTPTypes
import Hummingbird

/// Answers 403 to every request, known path or not, that does not carry the API token exactly once.
///
/// Two fields are refused even if both are right: a proxy has to set this header, not to add it.
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
