extension Result {
    /// What a call returns or throws, for callers that have something to do in both cases.
    package init(of call: () async throws(Failure) -> Success) async {
        do throws(Failure) {
            self = .success(try await call())
        } catch {
            self = .failure(error)
        }
    }
}
