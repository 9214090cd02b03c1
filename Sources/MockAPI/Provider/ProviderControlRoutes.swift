import FoundationEssentials
import NIOCore
import NIOHTTP1

/// The control of a provider over HTTP, for tests in another process. The paths exist only with
/// ``MockProviderSettings/exposesControl``; requests are recorded but never delayed or failed.
///
/// - `GET /__mock/script`, `PUT /__mock/script`: the ``ProviderScript`` as JSON. A `PUT` replaces it; omitted members have
///   their defaults. The response is the script in effect.
/// - `POST /__mock/rotate?keep=false`: see ``MockProvider/rotateKeys(keepsOld:)``.
/// - `GET /__mock/logins`: the sign-ins, each with `sub` and `sid`.
/// - `GET /__mock/logout-token?sub=…&sid=…`: a logout token, as `token`.
/// - `GET /__mock/requests`: the ``RecordedTraffic``.
struct ProviderControlRoutes {
    let provider: MockProvider

    var routes: RouteTable {
        [
            "GET /__mock/script": { _ in try .noStore(provider.state.script) },
            "PUT /__mock/script": { try await replaceScript($0) },
            "POST /__mock/rotate": { request in
                try provider.state.rotateKeys(keepsOld: TokenForm(text: request.query ?? "")?["keep"] != "false")
                return MockResponse(.noContent)
            },
            "GET /__mock/logins": { _ in
                try .noStore(provider.state.logins.map { ["sub": $0.subject, "sid": $0.sessionID] })
            },
            "GET /__mock/logout-token": { request in
                let form = TokenForm(text: request.query ?? "")
                let token = try provider.state.logoutToken(subject: form?["sub"], sessionID: form?["sid"])
                return try .noStore(["token": token])
            },
        ]
    }

    private func replaceScript(_ request: MockRequest) async throws -> MockResponse {
        guard let body = try await request.body.collect(upTo: 1 << 20) else { return MockResponse(.payloadTooLarge) }
        guard let script = try? JSONDecoder().decode(ProviderScript.self, from: Data(body.readableBytesView)) else {
            return .error(.badRequest, "The script is not valid.")
        }
        provider.state.update { $0 = script }
        return try .noStore(script)
    }
}
