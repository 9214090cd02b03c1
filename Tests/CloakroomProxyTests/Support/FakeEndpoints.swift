import CloakroomCore

/// Own endpoints that answer what a test chooses.
struct FakeEndpoints: OwnEndpoints {
    var response: @Sendable (OwnRequest) async -> OwnResponse = { _ in
        OwnResponse(status: 200, content: .json(Array("{}".utf8)))
    }

    func answer(_ request: OwnRequest) async -> OwnResponse {
        await response(request)
    }
}
