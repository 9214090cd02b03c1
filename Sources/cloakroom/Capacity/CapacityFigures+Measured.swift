extension CapacityFigures {
    /// The figures of `Benchmarks/capacity.json`, with which this file is written by `Benchmarks/capacity.py`:
    /// valkey 9.1.2, 2 cores, x86_64, shared with other programs.
    static let measured = CapacityFigures(
        // Benchmarks/capacity.py costs
        request: OperationCost(
            gatewayMicroseconds: 20.7, serverMicroseconds: 0,
            bytesToServer: 0, bytesFromServer: 0),
        lookUp: OperationCost(
            gatewayMicroseconds: 91.5, serverMicroseconds: 9.2,
            bytesToServer: 172, bytesFromServer: 993.1),
        lookUpAgain: OperationCost(
            gatewayMicroseconds: 69.9, serverMicroseconds: 3.9,
            bytesToServer: 60, bytesFromServer: 987),
        providerLookUp: OperationCost(
            gatewayMicroseconds: 104.2, serverMicroseconds: 9.7,
            bytesToServer: 116, bytesFromServer: 1_863.3),
        touch: OperationCost(
            gatewayMicroseconds: 11.7, serverMicroseconds: 4,
            bytesToServer: 146, bytesFromServer: 3.8),
        refresh: OperationCost(
            gatewayMicroseconds: 1_444.7, serverMicroseconds: 163.9,
            bytesToServer: 2_001.3, bytesFromServer: 1_182.6),
        signIn: OperationCost(
            gatewayMicroseconds: 1_245.8, serverMicroseconds: 238.6,
            bytesToServer: 2_968.2, bytesFromServer: 94.1),
        signOut: OperationCost(
            gatewayMicroseconds: 495.7, serverMicroseconds: 105.8,
            bytesToServer: 637.1, bytesFromServer: 2_054.9),
        login: OperationCost(
            gatewayMicroseconds: 1_348.3, serverMicroseconds: 100,
            bytesToServer: 2_781.8, bytesFromServer: 1_821.4),
        gatewayExponent: 0.618,
        serverExponent: 0.644,
        gatewayBytes: 50_810_880,
        gatewayBytesPerPasswordSession: 995,
        gatewayBytesPerProviderSession: 2_366,
        serverBytes: 7_565_312,
        // Benchmarks/capacity.py memory
        serverBytesPerPasswordSession: 1_751,
        serverBytesPerProviderSession: 2_715,
        serverBytesPerTrackedSession: 173,
        serverBytesPerFurtherGateway: 72)
}
