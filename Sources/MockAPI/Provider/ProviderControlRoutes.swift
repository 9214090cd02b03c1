import FoundationEssentials
import HTTPTypes
import Hummingbird

/// The control of a provider over HTTP, for tests in another process. The paths exist only with
/// ``MockProviderSettings/exposesControl``; requests are recorded but never delayed or failed.
///
/// - `GET /__mock/script`, `PUT /__mock/script`: the ``ProviderScript`` as JSON. A `PUT` replaces it; omitted members have
///   their defaults. The response is the script in effect.
/// - `POST /__mock/rotate?keep=false`: see ``RunningMockProvider/rotateKeys(keepsOld:hasShortCoordinate:)``.
/// - `GET /__mock/logins`: the sign-ins, each with `sub` and `sid`.
/// - `POST /__mock/logout?url=…&sub=…&sid=…`: sends a logout token. The response has the `status` of the receiver.
/// - `GET /__mock/requests`: the ``RecordedTraffic``.
struct ProviderControlRoutes {
    let provider: MockProvider

    func register(on router: Router<ProviderContext>) {
        router.get("__mock/script") { _, _ in try JSONResponse.noStore(provider.state.script) }
        router.put("__mock/script") { request, _ in try await replaceScript(request) }
        router.post("__mock/rotate") { request, _ in try rotate(request) }
        router.get("__mock/logins") { _, _ in
            try JSONResponse.noStore(provider.state.logins.map { ["sub": $0.subject, "sid": $0.sessionID] })
        }
        router.post("__mock/logout") { request, _ in try await logout(request) }
    }

    private func replaceScript(_ request: Request) async throws -> Response {
        let body = try await request.body.collect(upTo: 1 << 20)
        guard let script = try? JSONDecoder().decode(ProviderScript.self, from: Data(body.readableBytesView)) else {
            return JSONResponse.error(.badRequest, "The script is not valid.")
        }
        provider.state.update { $0 = script }
        return try JSONResponse.noStore(script)
    }

    private func rotate(_ request: Request) throws -> Response {
        try provider.state.rotateKeys(keepsOld: request.uri.queryParameters["keep"] != "false")
        return Response(status: .noContent)
    }

    private func logout(_ request: Request) async throws -> Response {
        guard let form = TokenForm(text: request.uri.query ?? ""), let url = form["url"] else {
            return JSONResponse.error(.badRequest, "url must be a URL.")
        }
        let status = try await provider.sendLogout(to: url, subject: form["sub"], sessionID: form["sid"])
        return try JSONResponse.noStore(["status": status])
    }
}
