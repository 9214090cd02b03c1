extension CapacityFigures {
    /// The figures of `Benchmarks/capacity.json`, with which this file is written by `Benchmarks/capacity.py`:
    /// valkey 9.1.2, 2 cores, x86_64, shared with other programs.
    static let measured = CapacityFigures(
        // Benchmarks/capacity.py costs
        request: OperationCost(
            gatewayMicroseconds: 30, gatewayIdleMicroseconds: 109.1,
            serverMicroseconds: 0, serverIdleMicroseconds: 0,
            bytesToServer: 0, bytesFromServer: 0),
        lookUp: OperationCost(
            gatewayMicroseconds: 80.6, gatewayIdleMicroseconds: 355.95,
            serverMicroseconds: 22.5, serverIdleMicroseconds: 96.5,
            bytesToServer: 172, bytesFromServer: 993.9),
        lookUpAgain: OperationCost(
            gatewayMicroseconds: 94.69999999999999, gatewayIdleMicroseconds: 358,
            serverMicroseconds: 15.2, serverIdleMicroseconds: 70.75,
            bytesToServer: 60, bytesFromServer: 987.8),
        providerLookUp: OperationCost(
            gatewayMicroseconds: 114.7, gatewayIdleMicroseconds: 454.9,
            serverMicroseconds: 24.15, serverIdleMicroseconds: 107.3,
            bytesToServer: 116.1, bytesFromServer: 1_864.6),
        touch: OperationCost(
            gatewayMicroseconds: 3.85, gatewayIdleMicroseconds: 3.85,
            serverMicroseconds: 17.9, serverIdleMicroseconds: 17.9,
            bytesToServer: 146, bytesFromServer: 3.8),
        refresh: OperationCost(
            gatewayMicroseconds: 757.3, gatewayIdleMicroseconds: 3_367.55,
            serverMicroseconds: 178.25, serverIdleMicroseconds: 875.85,
            bytesToServer: 1_923.35, bytesFromServer: 1_180.8),
        signIn: OperationCost(
            gatewayMicroseconds: 885.45, gatewayIdleMicroseconds: 3_019.45,
            serverMicroseconds: 279.05, serverIdleMicroseconds: 1_114.5500000000002,
            bytesToServer: 2_937.55, bytesFromServer: 92.9),
        signOut: OperationCost(
            gatewayMicroseconds: 437.6, gatewayIdleMicroseconds: 1_785.65,
            serverMicroseconds: 103.55, serverIdleMicroseconds: 495.25,
            bytesToServer: 593.75, bytesFromServer: 2_052.9),
        login: OperationCost(
            gatewayMicroseconds: 1_378.15, gatewayIdleMicroseconds: 1_378.15,
            serverMicroseconds: 314, serverIdleMicroseconds: 314,
            bytesToServer: 2_826.3, bytesFromServer: 1_825.9499999999998),
        gatewayBytes: 66_248_132,
        gatewayBytesPerPasswordSession: 995.5,
        gatewayBytesPerProviderSession: 2_321,
        serverBytes: 7_622_656,
        // Benchmarks/capacity.py memory
        serverBytesPerPasswordSession: 1_751,
        serverBytesPerProviderSession: 2_715,
        serverBytesPerTrackedKey: 173,
        serverBytesPerFurtherGateway: 72)
}
